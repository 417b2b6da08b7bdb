package pml

import "testing"

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
