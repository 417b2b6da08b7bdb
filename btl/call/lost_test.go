package call

import (
	"fmt"
	"testing"

	"gobtl/btl"
)

// The end of an endpoint touches no call of another endpoint: such a call is nil in this test.
func TestLostTouchesNoOther(t *testing.T) {
	n := &Node{
		asked:   map[*btl.Endpoint]map[uint64]*question{},
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(*btl.Endpoint) string { return "host" }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	lost, other := new(btl.Endpoint), new(btl.Endpoint)
	canceled := 0
	for id := range uint64(10) {
		n.note(id, &question{peer: other})
		n.asked[other][id] = nil
		if st, _ := n.enter(served{other, id}, nil, 0, place{}); st != statusOK {
			t.Fatal(st)
		}
		if st, _ := n.enter(served{lost, id}, func() { canceled++ }, 0, place{}); st != statusOK {
			t.Fatal(st)
		}
	}
	ended := 0
	s := &stream{end: func(error) { ended++ }}
	for _, err := range []error{
		n.streams.add(served{other, 1}, nil), n.streams.add(served{lost, 1}, s),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	n.lost(lost)
	if canceled != 10 || ended != 1 || len(n.asked[other]) != 10 {
		t.Errorf("%d calls and %d streams of the lost endpoint have ended, %d of the other are left",
			canceled, ended, len(n.asked[other]))
	}
}

// A peer of which no call is pending keeps a small table, and nothing when its endpoint has ended.
func TestIdleCaller(t *testing.T) {
	n := &Node{
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(*btl.Endpoint) string { return "host" }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	peer := new(btl.Endpoint)
	for calls := range uint64(2 * callsKept) {
		for id := range calls {
			st, _ := n.enter(served{peer, id}, func() {}, 5, place{})
			if st != statusOK {
				t.Fatal(st)
			}
		}
		for id := range calls {
			of, _ := n.leave(served{peer, id}, place{}, 5, 7)
			n.sent(peer, of, false)
		}
		if c := n.callers[peer]; c != nil && c.most > callsKept {
			t.Errorf("a table for %d calls is kept", c.most)
		}
	}
	if len(n.callers) != 1 || n.load != (load{}) {
		t.Errorf("%d peers, %+v", len(n.callers), n.load)
	}
	id, end := uint64(0), func() {}
	allocated := testing.AllocsPerRun(100, func() {
		id++
		n.enter(served{peer, id}, end, 5, place{})
		of, _ := n.leave(served{peer, id}, place{}, 5, 7)
		n.sent(peer, of, false)
	})
	if allocated != 0 {
		t.Errorf("the books of a call of an idle peer allocate %v times", allocated)
	}
	n.loseCalls(peer)
	if len(n.callers) != 0 || len(n.hosts) != 0 {
		t.Errorf("%d peers and %d hosts are kept", len(n.callers), len(n.hosts))
	}
}

// What all peers share leaves a part to another host when one host has many peers.
func TestSharesByHost(t *testing.T) {
	const each = 1 << 20
	at := map[*btl.Endpoint]string{}
	n := &Node{
		cfg:     Config{RequestBytes: each, AnswerBytes: each, Concurrent: 32, Total: 256},
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(ep *btl.Endpoint) string { return at[ep] }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	peerAt := func(host string) *btl.Endpoint {
		ep := new(btl.Endpoint)
		at[ep] = host
		return ep
	}
	id := uint64(0)
	for name, take := range map[string]func(*btl.Endpoint) bool{
		"requests": func(ep *btl.Endpoint) bool {
			id++
			st, _ := n.enter(served{ep, id}, func() {}, each, place{})
			return st == statusOK
		},
		"answers": func(ep *btl.Endpoint) bool {
			c := n.caller(ep)
			if !n.mayAnswer(c, each) {
				return false
			}
			n.add(c, load{answerBytes: each})
			return true
		},
		"streams": func(ep *btl.Endpoint) bool {
			id++
			_, kept := n.enter(served{ep, id}, func() {}, 0, place{})
			defer n.leave(served{ep, id}, kept, 0, 0)
			return n.reserve(ep, new(stream))
		},
	} {
		clear(n.callers)
		clear(n.hosts)
		n.load, n.counted = load{}, load{}
		most := 0
		for ; take(peerAt("bad " + name)); most++ {
			if most > 100 {
				t.Fatalf("%s: no bound", name)
			}
		}
		for i := range 2 {
			if !take(peerAt("good " + name)) {
				t.Errorf("%s: peer %d of another host is refused beside %d of one host", name, i+1, most)
			}
		}
		all := most + 2
		for ; take(peerAt(fmt.Sprint("host ", all))); all++ {
			if all > 2*most {
				t.Fatalf("%s: no bound for many hosts", name)
			}
		}
		if want := 8; most != want {
			t.Errorf("%s: one host has %d, want %d", name, most, want)
		}
	}
}

// Peers of one host that open further streams leave a further stream to a peer of another host.
func TestFurtherStreamsByHost(t *testing.T) {
	at := map[*btl.Endpoint]string{}
	n := &Node{
		cfg:     Config{Concurrent: 64, Total: 256},
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(ep *btl.Endpoint) string { return at[ep] }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	id := uint64(0)
	open := func(ep *btl.Endpoint) bool {
		id++
		_, kept := n.enter(served{ep, id}, func() {}, 0, place{})
		defer n.leave(served{ep, id}, kept, 0, 0)
		return n.reserve(ep, new(stream))
	}
	for range 100 {
		ep := new(btl.Endpoint)
		at[ep] = "bad"
		if open(ep) {
			open(ep)
		}
	}
	if all := n.load.running; all > n.cfg.Total {
		t.Errorf("one host has %d calls of streams, at most %d", all, n.cfg.Total)
	}
	ep := new(btl.Endpoint)
	at[ep] = "good"
	for i := range 3 {
		if !open(ep) {
			t.Errorf("stream %d of another host is refused", i+1)
		}
	}
}
