package pml

import "testing"

// A message of one peer does not look at the receives that accept several tags of another peer
// alone.
func TestReceivesOfAnotherPeer(t *testing.T) {
	q := newPosted(1)
	quiet, busy := newPeer(1), newPeer(2)
	var others []*Request
	for i := range uint64(1000) {
		r := &Request{}
		r.begin(quiet, i, 0, nil)
		q.add(r)
		others = append(others, r)
	}
	for _, r := range others {
		r.from = nil // so that a look takes the receive
	}
	for i, mask := range []uint64{exactly, 1, exactly} {
		r := &Request{}
		r.begin(busy, 7, mask, nil)
		q.add(r)
		if got := q.take(busy, 7); got != r {
			t.Fatalf("message %d takes %+v", i, got)
		}
	}
	if got := q.take(busy, 7); got != nil {
		t.Errorf("a message without a receive takes %+v", got)
	}
	for _, r := range others {
		r.from = quiet
	}
	left := 0
	q.each(func(r *Request) {
		q.remove(r)
		left++
	})
	if left != len(others) || !q.empty() {
		t.Errorf("%d receives are left, want %d; empty: %v", left, len(others), q.empty())
	}
}

// A receive from any peer takes the first of the messages that it wants, also with a mask that has
// no hash table.
func TestFifthMask(t *testing.T) {
	q := newUnexpected(1, 0)
	first, last := &Message{peer: newPeer(1)}, &Message{peer: newPeer(2)}
	q.add(first)
	q.add(last)
	for mask := range uint64(anyMasks + 1) {
		if got := q.find(nil, 0, mask); got != first {
			t.Errorf("mask %d: another message than the first", mask)
		}
	}
	if len(q.masks) != anyMasks || q.tableFor(anyMasks) >= 0 {
		t.Errorf("%d masks have tables, want %d", len(q.masks), anyMasks)
	}
}
