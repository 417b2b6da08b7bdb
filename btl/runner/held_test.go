package runner

import (
	"errors"
	"sync"
	"sync/atomic"
	"testing"

	"gobtl/btl"
	"gobtl/internal/byhost"
)

// lookHeld returns the bytes of large messages to all endpoints that count, the bytes to one
// endpoint, and the number of calls that wait to be begun.
func lookHeld(t *testing.T, r *Runner, ep *btl.Endpoint) (all, one int64, waiting int) {
	t.Helper()
	if err := r.Do(t.Context(), func(*btl.Module) error {
		r.posts.mu.Lock()
		defer r.posts.mu.Unlock()
		all, waiting = r.posts.held.Counted(), r.refused.count
		if n := r.posts.of[ep]; n != nil {
			one = n.held.Held()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return all, one, waiting
}

// SendBuffered waits when a peer has acknowledged none of heldBytesMax bytes of large messages, and
// goes on when the peer acknowledges again. In a callback it fails instead. A small message does
// not count.
func TestLargePostsUnacknowledged(t *testing.T) {
	const size, messages = 1 << 20, 40
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	r := rs[0]
	goOn := standStill(t, rs[1])
	if err := r.SendBuffered(t.Context(), ep, 3, make([]byte, 100)); err != nil {
		t.Fatal(err)
	}
	if _, n, _ := lookHeld(t, r, ep); n != 0 {
		t.Errorf("%d bytes of a small message count", n)
	}
	var sent atomic.Int64
	var all sync.WaitGroup
	all.Go(func() {
		for range messages {
			if err := r.SendBuffered(t.Context(), ep, 3, make([]byte, size)); err != nil {
				t.Error(err)
				return
			}
			sent.Add(1)
		}
	})
	eventually(t, "a message to wait", func() bool {
		_, _, waiting := lookHeld(t, r, ep)
		return waiting > 0
	})
	if _, n, _ := lookHeld(t, r, ep); n != heldBytesMax || sent.Load() != heldBytesMax/size {
		t.Errorf("%d bytes of %d messages are held, want %d", n, sent.Load(), heldBytesMax)
	}
	if err := r.Do(t.Context(), func(*btl.Module) error {
		if err := r.Post(ep, 3, make([]byte, size)); !errors.Is(err, btl.ErrAgain) {
			t.Errorf("in a callback: %v", err)
		}
		return nil
	}); err != nil {
		t.Error(err)
	}
	goOn()
	all.Wait()
	if err := r.Flush(t.Context(), ep); err != nil {
		t.Error(err)
	}
	if n := sent.Load(); n != messages {
		t.Errorf("%d messages are sent of %d", n, messages)
	}
	wantNoneHeld(t, r)
	wantNoPosts(t, r, []*btl.Endpoint{ep})
}

// wantNoneHeld checks that no large messages are counted after a Flush.
func wantNoneHeld(t *testing.T, r *Runner) {
	t.Helper()
	eventually(t, "all large messages to end", func() bool {
		r.posts.mu.Lock()
		defer r.posts.mu.Unlock()
		for _, n := range r.posts.of {
			if n.held.Held() != 0 {
				return false
			}
		}
		return r.posts.held.Counted() == 0
	})
}

// The peers of one host that acknowledge nothing hold a bounded number of bytes together. Large
// messages of any size to another host go on. When the silent endpoints end, nothing is counted.
func TestLargePostsOfOneHost(t *testing.T) {
	const bads, size, total = 12, 100_000, 500_000
	rs := openRunners(t, bads+2, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	r := rs[0]
	eps := make([]*btl.Endpoint, bads+1)
	for i := range eps {
		eps[i] = connectTo(t, r, rs[1+i])
	}
	good := eps[bads]
	if err := r.Do(t.Context(), func(*btl.Module) error {
		r.posts.held = byhost.NewBound(total, heldFreeBytes)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	hostsOf(t, r, good) // the endpoints enter the new Bound
	var all sync.WaitGroup
	for i, ep := range eps[:bads] {
		standStill(t, rs[1+i])
		all.Go(func() {
			for range bads {
				err := r.SendBuffered(t.Context(), ep, 3, make([]byte, size))
				if err != nil {
					if !errors.Is(err, btl.ErrClosed) {
						t.Error(err)
					}
					return
				}
			}
		})
	}
	eventually(t, "all messages to wait", func() bool {
		_, _, waiting := lookHeld(t, r, good)
		return waiting == bads
	})
	if n, _, _ := lookHeld(t, r, good); n < total || n > total+size {
		t.Errorf("%d bytes are held, want about %d", n, total)
	}
	for _, size := range []int{0, 1000, size, 4 * size, 3 * total} {
		for range 3 {
			if err := r.SendBuffered(t.Context(), good, 3, make([]byte, size)); err != nil {
				t.Fatalf("%d bytes to another host: %v", size, err)
			}
		}
	}
	if err := r.Flush(t.Context(), good); err != nil {
		t.Error(err)
	}
	if _, n, _ := lookHeld(t, r, good); n != 0 {
		t.Errorf("%d bytes are counted of messages that are acknowledged", n)
	}
	if err := r.Do(t.Context(), func(*btl.Module) error {
		for _, ep := range eps[:bads] {
			ep.Abort()
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	all.Wait()
	wantNoneHeld(t, r)
	wantForgotten(t, []*btl.Endpoint{good}, r)
}

// A refused large message leaves nothing of an endpoint without posts. A message that is left
// behind counts at once.
func TestLargePostRefused(t *testing.T) {
	const most = 1000
	p := posts{hostOf: func(*btl.Endpoint) string { return "host" }, held: byhost.NewBound(most, 0)}
	first, second := new(btl.Endpoint), new(btl.Endpoint)
	if !p.hold(first, 2*most) || p.all.count != 0 {
		t.Error("the first large message is refused")
	}
	for range 3 {
		if p.hold(second, 1) || p.add(second, 1, true) {
			t.Error("the host goes on beyond its share")
		}
	}
	if len(p.of) != 1 || len(p.strangers) != 0 || p.all.count != 0 {
		t.Errorf("%d endpoints, %d of them strangers, and %d posts", len(p.of), len(p.strangers),
			p.all.count)
	}
	p.unhold(first, 2*most)
	if !p.add(second, most, true) {
		t.Error("a message is refused when none is held")
	}
	if p.learn(); p.add(first, most, true) || !p.add(first, 1, false) {
		t.Error("a message that is left behind does not count as held")
	}
	if p.held.Counted() != most || p.all != (postCount{2, most + 1}) {
		t.Errorf("%d bytes are held, and %+v posts", p.held.Counted(), p.all)
	}
}

// A large message that the peer refuses is told by a Flush that is called afterwards.
func TestLargePostRefusedByPeer(t *testing.T) {
	rs, ep := pair(t, nil)
	r := rs[0]
	if err := r.SendBuffered(t.Context(), ep, 3, make([]byte, 1<<20)); err != nil {
		t.Fatal(err)
	}
	wantNoneHeld(t, r)
	if err := r.Flush(t.Context(), ep); !errors.Is(err, btl.ErrNoHandler) {
		t.Errorf("a message without a handler: %v, want %v", err, btl.ErrNoHandler)
	}
	if err := r.Flush(t.Context(), ep); err != nil {
		t.Errorf("the second Flush: %v", err)
	}
}

// A large message costs no allocation for its count.
func TestLargePostAllocations(t *testing.T) {
	p := posts{hostOf: func(*btl.Endpoint) string { return "host" }, held: byhost.NewBound(1000, 0)}
	ep := new(btl.Endpoint)
	p.know(ep)
	if n := testing.AllocsPerRun(100, func() {
		if !p.hold(ep, 100) {
			t.Error("refused")
		}
		p.unhold(ep, 100)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
