package call

import (
	"testing"

	"gobtl/btl"
)

// idleNode is a Node that sends nothing, and whose peers are of the given hosts.
func idleNode(t *testing.T) (*Node, func(host string) *btl.Endpoint) {
	t.Helper()
	at := map[*btl.Endpoint]string{}
	n := &Node{
		callers: map[*btl.Endpoint]*caller{}, hosts: map[string]*callerHost{},
		hostOf: func(ep *btl.Endpoint) string { return at[ep] }, ended: t.Context(),
	}
	if err := n.cfg.fill(); err != nil {
		t.Fatal(err)
	}
	return n, func(host string) *btl.Endpoint {
		ep := new(btl.Endpoint)
		at[ep] = host
		return ep
	}
}

// Peers of one host that accept no answers and have one call at a time share the limit of
// unaccepted answers. A peer of another host can begin calls.
func TestSendingOfOneHost(t *testing.T) {
	n, peer := idleNode(t)
	const peers = 64
	id := uint64(0)
	for range peers {
		ep := peer("bad")
		for range 2000 {
			id++
			if st, kept := n.enter(served{ep, id}, func() {}, 0, place{}); st == statusOK {
				n.leave(served{ep, id}, kept, 0, 0) // the handler has returned; the answer waits
			}
		}
	}
	const most = totalFactor*sendingMax + peers*(sendingFree+1)
	if n.load.sending > most || n.load.sending < most/2 {
		t.Errorf("%d answers wait, at most %d", n.load.sending, most)
	}
	good := peer("good")
	for i := range 100 {
		id++
		if st, _ := n.enter(served{good, id}, func() {}, 0, place{}); st != statusOK {
			t.Fatalf("call %d at a time of a peer of another host: status %d", i+1, st)
		}
	}
}

// Queued answers without a body count as the memory that they take. Peers of one host may queue up
// to the limit for all peers and their allowances, and a peer of another host may queue answers
// then.
func TestOwedOfOneHost(t *testing.T) {
	n, peer := idleNode(t)
	n.cfg.AnswerBytes = 64 << 10
	paying := func(ep *btl.Endpoint) *btl.Endpoint { // so that no goroutine sends the answers
		n.caller(ep).paying = true
		return ep
	}
	owed := func(ep *btl.Endpoint, count int) (n2 int) {
		for n2 < count && n.owe(ep, head{}, nil) {
			n2++
		}
		return n2
	}
	all := 0
	const peers = 64
	for range peers {
		all += owed(paying(peer("bad")), owedMax)
	}
	most := (totalFactor*int(n.cfg.AnswerBytes) + peers*freeAnswerBytes) / owedOverheadBytes
	if all > most || all < most/2 {
		t.Errorf("%d answers are queued, at most %d", all, most)
	}
	want := totalFactor * int(n.cfg.AnswerBytes) / 2 / owedOverheadBytes // half of what is left
	if got := owed(paying(peer("good")), owedMax); got != want {
		t.Errorf("%d answers of another host are queued, want %d", got, want)
	}
}
