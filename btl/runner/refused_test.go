package runner

import (
	"context"
	"errors"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
)

// standStill has a Runner's module make no pass until the function that is returned is called.
func standStill(t *testing.T, r *Runner) (goOn func()) {
	t.Helper()
	stop, stopped := make(chan struct{}), make(chan struct{})
	ended := make(chan error, 1)
	go func() {
		ended <- r.Do(context.Background(), func(*btl.Module) error {
			close(stopped)
			<-stop
			return nil
		})
	}()
	<-stopped
	goOn = sync.OnceFunc(func() {
		close(stop)
		if err := <-ended; err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(goOn) // before the Runners are closed, if a test ends early
	return goOn
}

// eventually waits for something.
func eventually(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ready(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("still waiting for %s", what)
		}
	}
}

// connectTo connects to another Runner of the test.
func connectTo(t *testing.T, r, to *Runner) *btl.Endpoint {
	t.Helper()
	var name []byte
	look := func(m *btl.Module) error { name = m.Name(); return nil }
	if err := to.Do(t.Context(), look); err != nil {
		t.Fatal(err)
	}
	ep, err := r.Connect(t.Context(), name)
	if err != nil {
		t.Fatal(err)
	}
	return ep
}

// Calls that are refused because of one peer, which stands still, hold up nobody else's.
func TestRunnerOnePeerStandsStill(t *testing.T) {
	rs := openRunners(t, 3, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	ctx := t.Context()
	var h btl.Handle
	err := rs[1].Do(ctx, func(m *btl.Module) error {
		r, err := m.Expose(make([]byte, 4096), btl.RemoteAll)
		if err == nil {
			h = r.Handle()
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	still, well := connectTo(t, rs[0], rs[1]), connectTo(t, rs[0], rs[2])
	defer standStill(t, rs[1])()
	const gets = asksMax + 50
	waiting, cancel := context.WithCancel(ctx)
	done := make(chan error, gets)
	for range gets {
		go func() { done <- rs[0].Get(waiting, still, make([]byte, 16), h, 0) }()
	}
	eventually(t, "the gets that are too many to be refused", func() bool {
		n := 0
		err := rs[0].Do(ctx, func(*btl.Module) error { n = rs[0].refused.count; return nil })
		return err == nil && n == gets-asksMax
	})
	for range 100 {
		brief, stop := context.WithTimeout(ctx, 10*time.Second)
		for what, f := range map[string]func() error{
			"Do":           func() error { return rs[0].Do(brief, func(*btl.Module) error { return nil }) },
			"Send":         func() error { return rs[0].Send(brief, well, 3, []byte("x")) },
			"SendBuffered": func() error { return rs[0].SendBuffered(brief, well, 3, []byte("x")) },
			"Flush":        func() error { return rs[0].Flush(brief, well) },
		} {
			if err := f(); err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		stop()
	}
	cancel()
	for range gets {
		if err := <-done; !errors.Is(err, context.Canceled) {
			t.Errorf("a get of a peer that stands still: %v", err)
		}
	}
}

// When calls for many endpoints of one host are refused, each poll still tries the calls for the
// only endpoint of another host. No poll tries the calls for an endpoint twice.
func TestRefusedTurnsOfHosts(t *testing.T) {
	const many, polls = 40, 4
	r := openRunners(t, 1, nil)[0]
	var f refusedCalls
	tries := map[string]int{}
	refuse := func(host string) {
		c := r.newCall(callAwait)
		latest := 0
		c.await = func(*btl.Module, Waker) error {
			if latest == tries["polls"] {
				t.Errorf("two tries in poll %d for an endpoint of the host with %s", latest, host)
			}
			latest = tries["polls"]
			tries[host]++
			return btl.ErrAgain
		}
		f.queue(new(btl.Endpoint), host).calls.PushBack(&c.refused, c)
		f.count++
	}
	for range many {
		refuse("many")
	}
	refuse("one")
	err := r.Do(t.Context(), func(*btl.Module) error {
		for range polls {
			tries["polls"]++
			if begun := f.tryAgain(r); begun != 0 {
				t.Errorf("%d calls are begun that are refused", begun)
			}
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if tries["one"] != polls || tries["many"] != polls*(refusedMax-1) {
		t.Errorf("%v tries in %d polls, want %d and %d", tries, polls, polls*(refusedMax-1), polls)
	}
	if f.turns.Waiting() != many+1 || f.count != many+1 {
		t.Errorf("%d queues with %d calls are left", f.turns.Waiting(), f.count)
	}
}

// A call that is refused when the Runner closes is in no queue afterwards. Another Runner may reuse
// the call, and would take it for one of its own refused calls.
func TestRefusedClosed(t *testing.T) {
	r := openRunners(t, 1, nil)[0]
	c := r.newCall(callAwait)
	c.await = func(*btl.Module, Waker) error { return btl.ErrAgain }
	if err := r.Do(t.Context(), func(*btl.Module) error { r.offer(c); return nil }); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = r.Close(ctx)
	<-r.Done()
	if !c.ended() || c.open.Listed() || c.refused.Listed() {
		t.Errorf("ended: %v, open: %v, refused: %v", c.ended(), c.open.Listed(), c.refused.Listed())
	}
}

// A Flush is behind what SendBuffered has accepted, wherever that waits.
func TestRunnerFlushBehindPosts(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	if err := rs[0].Flush(t.Context(), ep); err != nil {
		t.Fatal(err)
	}
	defer standStill(t, rs[1])()
	for range 50 {
		rs[0].turn.token.Lock() // somebody drives, and has not looked into the inbox yet when it leaves
		err := rs[0].SendBuffered(t.Context(), ep, 3, []byte("post"))
		rs[0].turn.token.Unlock()
		if err != nil {
			t.Fatal(err)
		}
		brief, cancel := context.WithTimeout(t.Context(), 2*time.Millisecond)
		err = rs[0].Flush(brief, ep)
		cancel()
		if err == nil {
			t.Fatal("all was acknowledged by a peer that stands still")
		}
	}
}

// An Await whose context has ended is forgotten, whoever drives, and its Waker does nothing.
func TestRunnerAwaitIsForgotten(t *testing.T) {
	rs := openRunners(t, 1, nil)
	r := rs[0]
	for i := range 200 {
		ctx, cancel := context.WithCancel(t.Context())
		var waker Waker
		begun := make(chan struct{})
		if i%2 == 1 { // another call drives
			stop, end := context.WithCancel(t.Context())
			go func() { _ = r.Await(stop, func(*btl.Module, Waker) error { return nil }) }()
			defer end()
		}
		go func() { <-begun; cancel() }()
		err := r.Await(ctx, func(_ *btl.Module, w Waker) error { waker = w; close(begun); return nil })
		if !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if err := r.Do(t.Context(), func(*btl.Module) error { waker.Wake(nil); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the Awaits that are over to be forgotten", func() bool {
		n := 0
		err := r.Do(t.Context(), func(*btl.Module) error {
			for c := r.open.First(); c != nil; c = c.open.Next() {
				n++
			}
			return nil
		})
		return err == nil && n <= 101 // those that drive, and this one
	})
}

// A Waker may be called before begin has returned.
func TestRunnerWakeInsideBegin(t *testing.T) {
	rs := openRunners(t, 1, nil)
	failed := errors.New("failed")
	for range 100 {
		err := rs[0].Await(t.Context(), func(_ *btl.Module, w Waker) error {
			w.Wake(failed)
			w.Wake(nil)
			return nil
		})
		if !errors.Is(err, failed) {
			t.Fatalf("%v, want what Wake was given", err)
		}
	}
}

// Do does not return while its function runs, and has its result then.
func TestRunnerDoWaitsForItsFunction(t *testing.T) {
	rs := openRunners(t, 1, nil)
	goOn := standStill(t, rs[0])
	in, out := make(chan struct{}), make(chan struct{})
	ctx, cancel := context.WithCancel(t.Context())
	result := make(chan error, 1)
	go func() { result <- rs[0].Do(ctx, func(*btl.Module) error { close(in); <-out; return nil }) }()
	eventually(t, "the call to wait", func() bool { return !rs[0].inbox.empty() })
	go goOn() // who drives may be the one that stood still: it runs the function, too
	<-in
	cancel()
	select {
	case err := <-result:
		t.Errorf("Do has returned %v while its function ran", err)
	case <-time.After(20 * time.Millisecond):
	}
	close(out)
	if err := <-result; err != nil {
		t.Errorf("%v, want the function's result", err)
	}
}

// The Waker of a begin that was refused, with ErrAgain, does nothing: the call is begun again.
func TestRunnerWakerOfRefusedBegin(t *testing.T) {
	rs := openRunners(t, 1, nil)
	r := rs[0]
	var mu sync.Mutex
	var first Waker
	tries := 0
	done := make(chan error, 1)
	failed := errors.New("failed")
	go func() {
		done <- r.Await(t.Context(), func(_ *btl.Module, w Waker) error {
			mu.Lock()
			defer mu.Unlock()
			if tries++; tries == 1 {
				first = w
			}
			if tries < 20 {
				return btl.ErrAgain
			}
			w.Wake(failed)
			return nil
		})
	}()
	for ended := false; !ended; {
		err := r.Do(t.Context(), func(*btl.Module) error {
			mu.Lock()
			defer mu.Unlock()
			if tries > 0 && tries < 20 {
				first.Wake(nil)
			}
			ended = tries >= 20
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := <-done; !errors.Is(err, failed) {
		t.Errorf("%v, want what the last Waker was given", err)
	}
}

// However long a peer stands still, and whoever drives meanwhile, SendBuffered leaves no more
// behind than it may; then it waits, as long as its context allows.
func TestRunnerPostsAreBounded(t *testing.T) {
	for _, bytes := range []int{400, postsBytesMax / 16} {
		rs, ep := pair(t, func(_ int, m *btl.Module) {
			mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
		})
		r := rs[0]
		stop, end := context.WithCancel(t.Context())
		driver := make(chan error, 1)
		begun := make(chan struct{})
		go func() { // drives all the time
			driver <- r.Await(stop, func(m *btl.Module, _ Waker) error { close(begun); return nil })
		}()
		<-begun
		goOn := standStill(t, rs[1])
		const enough = 5 // waits one after the other: the inbox is empty, too
		data, waits := make([]byte, bytes), 0
		for i := 0; i < 20*postsMax && waits < enough; i++ {
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
			if err := r.SendBuffered(ctx, ep, 3, data); err == nil {
				waits = 0
			} else if waits++; !errors.Is(err, context.DeadlineExceeded) {
				t.Fatal(err)
			}
			cancel()
		}
		if waits < enough {
			t.Errorf("%d bytes: SendBuffered never waits", bytes)
		}
		refused := 0
		count := func(*btl.Module) error { refused = r.refused.count; return nil }
		if err := r.Do(t.Context(), count); err != nil {
			t.Error(err)
		}
		if refused > min(postsMax, postsBytesMax/bytes)+2*enough {
			t.Errorf("%d bytes: %d posts wait for a peer that stands still", bytes, refused)
		}
		goOn()
		if err := r.Flush(t.Context(), ep); err != nil {
			t.Error(err)
		}
		r.posts.mu.Lock()
		left := r.posts.all
		r.posts.mu.Unlock()
		if left != (postCount{}) {
			t.Errorf("%d posts of %d bytes are counted when all are sent", left.count, left.bytes)
		}
		end()
		<-driver
	}
}

// When the context of the only refused call for an endpoint ends, nothing of the endpoint is left
// among the refused calls, whether the goroutine of the call drives the module or another one.
func TestRefusedForgetsEndpoint(t *testing.T) {
	rs, ep := pair(t, nil)
	r := rs[0]
	for _, other := range []bool{false, true} {
		stop, end := context.WithCancel(t.Context())
		driver := make(chan error, 1)
		if other {
			begun := make(chan struct{})
			go func() {
				driver <- r.Await(stop, func(*btl.Module, Waker) error { close(begun); return nil })
			}()
			<-begun
		}
		ctx, cancel := context.WithCancel(t.Context())
		err := r.DoFor(ctx, ep, func(*btl.Module) error { cancel(); return btl.ErrAgain })
		if !errors.Is(err, context.Canceled) {
			t.Errorf("a refused call whose context ends: %v", err)
		}
		count, queues, turns := 1, 0, 0
		eventually(t, "the refused call to be forgotten", func() bool {
			err := r.Do(t.Context(), func(*btl.Module) error {
				count, queues, turns = r.refused.count, len(r.refused.by), r.refused.turns.Waiting()
				return nil
			})
			return err != nil || count == 0
		})
		if queues != 0 || turns != 0 {
			t.Errorf("other driver %v: %d queues and %d turns are left of no calls", other, queues, turns)
		}
		end()
		if other {
			<-driver
		}
	}
}
