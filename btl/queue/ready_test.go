package queue

import (
	"math/rand/v2"
	"testing"

	"gobtl/btl"
	"gobtl/internal/kept"
	"gobtl/internal/testenv"
)

// A message of one peer is found, and an ended peer is removed, without a walk through the peers
// with messages: in this test such a walk would find a nil pointer.
func TestReadyWithoutWalk(t *testing.T) {
	peer, other := new(btl.Endpoint), new(btl.Endpoint)
	q := &Queue{
		from: map[*btl.Endpoint]*inbox{}, left: map[*btl.Endpoint]*inbox{},
		gone: kept.New[*inbox](1 << 20), more: make(chan struct{}),
		cfg: Config{Bytes: 1 << 20, TotalBytes: 1 << 20},
	}
	q.tryKeep(other, []byte("other"))
	q.tryKeep(peer, []byte("one"))
	q.tryKeep(peer, []byte("two"))
	first := q.ready.first
	q.ready.first = nil
	if msg, _, _ := q.next(peer); string(msg.Data) != "one" {
		t.Errorf("%q", msg.Data)
	}
	q.ready.first = first
	if msg, _, _ := q.next(nil); string(msg.Data) != "other" || q.ready.count != 1 {
		t.Errorf("%q, %d are ready", msg.Data, q.ready.count)
	}
	if msg, _, more := q.next(other); msg.Peer != nil || more == nil {
		t.Errorf("%q", msg.Data)
	}
	if msg, _, _ := q.next(peer); string(msg.Data) != "two" || q.ready != (readyInboxes{}) {
		t.Errorf("%q, %+v", msg.Data, q.ready)
	}
}

// The list of inboxes behaves like a slice.
func TestReadyModel(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	var l readyInboxes
	var want []*inbox
	all := make([]inbox, 8)
	for range 10_000 {
		in := &all[random.IntN(len(all))]
		if in.listed {
			l.remove(in)
			kept := want[:0]
			for _, w := range want {
				if w != in {
					kept = append(kept, w)
				}
			}
			want = kept
		} else {
			l.remove(in) // does nothing
			l.add(in)
			want = append(want, in)
		}
		forward, backward := l.first, l.last
		for i := range want {
			if forward != want[i] || backward != want[len(want)-1-i] {
				t.Fatalf("inbox %d of %d differs", i, len(want))
			}
			forward, backward = forward.next, backward.prev
		}
		if forward != nil || backward != nil || l.count != len(want) {
			t.Fatalf("%d inboxes, want %d", l.count, len(want))
		}
	}
}
