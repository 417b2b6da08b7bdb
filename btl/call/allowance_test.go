package call

import (
	"testing"

	"gobtl/btl"
)

// Peers within their allowance do not count towards the limits for all peers: 600 peers of one host
// that use only their allowance leave the shares to a peer of another host.
func TestAllowancesOfOneHost(t *testing.T) {
	const limit, peers, calls = 1 << 20, 600, 8
	id := uint64(0)
	enter := func(n *Node, ep *btl.Endpoint, bytes int64) bool {
		id++
		st, _ := n.enter(served{ep, id}, func() {}, bytes, place{})
		return st == statusOK
	}
	admit := func(n *Node, ep *btl.Endpoint, bytes int64) bool { return n.admit(ep, bytes).c != nil }
	owe := func(n *Node, ep *btl.Endpoint) bool {
		n.caller(ep).paying = true // so that no goroutine sends the answers
		return n.owe(ep, head{}, nil)
	}
	for name, of := range map[string]struct {
		allowed func(n *Node, bad *btl.Endpoint) bool
		further func(n *Node, good *btl.Endpoint) bool
		times   int
		lost    bool // the endpoints of the one host end
	}{
		"calls": {
			func(n *Node, bad *btl.Endpoint) bool { return enter(n, bad, 0) },
			func(n *Node, good *btl.Endpoint) bool { return enter(n, good, 0) }, calls, false,
		},
		"calls of ended endpoints": {
			func(n *Node, bad *btl.Endpoint) bool { return enter(n, bad, 0) },
			func(n *Node, good *btl.Endpoint) bool { return enter(n, good, 0) }, calls, true,
		},
		"requests": {
			func(n *Node, bad *btl.Endpoint) bool { return enter(n, bad, smallBytes) },
			func(n *Node, good *btl.Endpoint) bool { return enter(n, good, smallBytes+1) }, 1, false,
		},
		"answers": {
			func(n *Node, bad *btl.Endpoint) bool { return admit(n, bad, smallBytes) },
			func(n *Node, good *btl.Endpoint) bool { return admit(n, good, 3*smallBytes) }, 1, false,
		},
		"queued answers": {
			func(n *Node, bad *btl.Endpoint) bool { return admit(n, bad, smallBytes) },
			owe, 2 * freeAnswerBytes / owedOverheadBytes, false,
		},
	} {
		n, peer := idleNode(t)
		n.cfg = Config{Concurrent: 32, Total: 256, RequestBytes: limit, AnswerBytes: limit}
		if err := n.cfg.fill(); err != nil {
			t.Fatal(err)
		}
		bad := make([]*btl.Endpoint, peers)
		for i := range bad {
			if bad[i] = peer("bad"); !of.allowed(n, bad[i]) {
				t.Fatalf("%s: a peer does not get its allowance", name)
			}
		}
		if of.lost {
			for _, ep := range bad {
				n.loseCalls(ep)
			}
		}
		good := peer("good")
		for i := range of.times {
			if !of.further(n, good) {
				t.Errorf("%s: number %d of a peer of another host is refused", name, i+1)
				break
			}
		}
	}
}

// A peer has its allowance although all peers together have reached a limit, and the bound of all
// counted loads is less than twice the limit.
func TestAllowanceAtLimit(t *testing.T) {
	const limit, peers, hosts = 64, 200, 10
	n, peer := idleNode(t)
	n.cfg = Config{Concurrent: 32, Total: limit}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	for host := range hosts {
		for range peers {
			ep := peer(string(rune('a' + host)))
			for i := 0; ; i++ {
				id++
				if st, _ := n.enter(served{ep, id}, func() {}, 0, place{}); st != statusOK {
					if i == 0 {
						t.Fatalf("the only call of a peer: status %d", st)
					}
					break
				}
			}
		}
	}
	if all, most := n.load.running, 2*limit+peers*hosts; all > most || n.counted.running > 2*limit {
		t.Errorf("%d calls run, at most %d; %d count, at most %d", all, most, n.counted.running, 2*limit)
	}
}
