package queue

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"testing"

	"gobtl/btl"
	"gobtl/internal/testenv"
)

// A message ends the wait of one Take: the oldest of its peer, or else the oldest of any peer.
func TestMessageEndsOneWait(t *testing.T) {
	a, b := new(btl.Endpoint), new(btl.Endpoint)
	q := newReady(1<<20, func(*btl.Endpoint) string { return "host" })
	var all []*taker
	for _, peer := range []*btl.Endpoint{nil, a, b, a, a, nil, nil} {
		all = append(all, q.wait(peer))
	}
	ended := func(want ...int) {
		t.Helper()
		var got []int
		for i, w := range all {
			if len(w.ended) > 0 {
				got = append(got, i)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("the waits %v have ended, want %v", got, want)
		}
	}
	q.tryKeep(a, []byte("1"))
	ended(1)
	q.giveUp(all[3], context.Canceled)
	q.giveUp(all[1], context.Canceled) // has a message already
	ended(1, 3)
	q.tryKeep(a, []byte("2"))
	ended(1, 3, 4)
	q.giveUp(all[5], context.Canceled)
	q.tryKeep(a, []byte("3"))
	ended(0, 1, 3, 4, 5)
	q.endWaits(b, btl.ErrClosed)
	ended(0, 1, 2, 3, 4, 5)
	q.tryKeep(b, []byte("4"))
	q.tryKeep(b, []byte("5")) // no Take waits
	ended(0, 1, 2, 3, 4, 5, 6)
	for i, want := range []struct {
		data string
		err  error
	}{
		{"3", nil},
		{"1", nil},
		{"", btl.ErrClosed},
		{"", context.Canceled},
		{"2", nil},
		{"", context.Canceled},
		{"4", nil},
	} {
		if w := all[i]; string(w.msg.Data) != want.data || !errors.Is(w.err, want.err) {
			t.Errorf("wait %d returns %q, %v, want %q, %v", i, w.msg.Data, w.err, want.data, want.err)
		}
	}
	if msg, _ := q.next(b); string(msg.Data) != "5" || len(q.takers) != 0 || q.held != 0 {
		t.Errorf("%q is left, %d takers, %d bytes are held", msg.Data, len(q.takers), q.held)
	}
}

// No Take waits while a message that it could take is in an inbox, whatever happens before.
func TestNoWaitBesideMessage(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 1))
	peers := []*btl.Endpoint{nil, new(btl.Endpoint), new(btl.Endpoint), new(btl.Endpoint)}
	q := newReady(1<<20, func(*btl.Endpoint) string { return "host" })
	var waiting []*taker
	sent, got := 0, 0
	for step := range 20_000 {
		peer := peers[random.IntN(len(peers))]
		switch kind := random.IntN(5); {
		case kind < 2 && peer != nil:
			q.tryKeep(peer, nil)
			sent++
		case kind == 2 && len(waiting) > 0:
			q.giveUp(waiting[random.IntN(len(waiting))], context.Canceled)
		case kind == 3 && step%10 == 0:
			q.endWaits(peer, btl.ErrClosed)
		default:
			if msg, _ := q.next(peer); msg.Peer != nil {
				got++
			} else {
				waiting = append(waiting, q.wait(peer))
			}
		}
		waiting = slices.DeleteFunc(waiting, func(w *taker) bool {
			if len(w.ended) > 0 && w.err == nil {
				got++
			}
			return len(w.ended) > 0
		})
		for _, w := range waiting {
			if q.readyOf(w.peer) != nil {
				t.Fatalf("step %d: a Take waits, and a message for it is in an inbox", step)
			}
		}
	}
	for msg, _ := q.next(nil); msg.Peer != nil; msg, _ = q.next(nil) {
		got++
	}
	if got != sent {
		t.Errorf("%d messages are taken of %d", got, sent)
	}
}

// A Take that waits, and the message that ends its wait, cost no allocation but the message's.
func TestWaitAllocates(t *testing.T) {
	if testenv.Race {
		t.Skip("a sync.Pool keeps nothing for sure under the race detector")
	}
	a := new(btl.Endpoint)
	q := newReady(1<<20, func(*btl.Endpoint) string { return "host" })
	if n := testing.AllocsPerRun(100, func() {
		w := q.wait(a)
		q.tryKeep(a, nil)
		<-w.ended
		*w = taker{ended: w.ended}
		takers.Put(w)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
