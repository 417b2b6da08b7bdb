package pml

import (
	"testing"

	"gobtl/btl"
)

// A receive from any peer of a set is passed over by messages of other peers, and stays posted.
func TestReceivesAmong(t *testing.T) {
	t.Parallel()
	inside, outside, unknown := newPeer(1), newPeer(2), newPeer(3)
	inside.Number, outside.Number = 200, 201
	among := new(Members)
	for _, n := range []uint32{1, 64, 200} {
		among.Add(n)
	}
	q := newPosted(1)
	only, all := &Request{Among: among}, &Request{}
	for _, r := range []*Request{only, all} {
		r.begin(nil, 7, exactly, nil)
		q.add(r)
	}
	if got := q.take(outside, 7); got != all {
		t.Errorf("a message of another peer takes %+v", got)
	}
	if got := q.take(unknown, 7); got != nil {
		t.Errorf("a message of a peer without a number takes %+v", got)
	}
	if got := q.take(inside, 7); got != only {
		t.Errorf("a message of a peer of the set takes %+v", got)
	}
	if !q.empty() {
		t.Error("receives are left")
	}
	wants := map[uint32]bool{0: false, 1: true, 63: false, 64: true, 65: false, 5000: false}
	for n, want := range wants {
		if p := (&Peer{Number: n}); among.Has(p) != want || new(Members).Has(p) {
			t.Errorf("peer %d: %v", n, !want)
		}
	}
}

// A peer has its number before its first message is matched, although the message can arrive before
// the Layer reports the connection.
func TestNumberBeforeFirstMessage(t *testing.T) {
	t.Parallel()
	early := 0
	lc := Config{Number: func(ep *btl.Endpoint) uint32 {
		if ep.Connected() {
			early++
		}
		return 5
	}}
	step, layers := memLayers(t, 2, lc)
	a, b := layers[0], layers[1]
	among := new(Members)
	among.Add(5)
	receive, send := Request{Among: among}, Request{}
	if err := b.Recv(step(), &receive, nil, 7, exactly, make([]byte, 4)); err != nil {
		t.Fatal(err)
	}
	ep, err := a.m.Connect(step(), b.m.Name())
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Send(step(), &send, a.Peer(ep), 7, []byte("word"), Standard); err != nil {
		t.Fatal(err)
	}
	for range 1000 {
		step()
	}
	if !receive.Done() || early != 1 {
		t.Errorf("received: %v, numbers of connected peers: %d", receive.Done(), early)
	}
}
