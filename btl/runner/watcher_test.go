package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// While a callback takes long, the watcher sleeps until the callback has ended, and then drives the
// module again. Config.Park is too long for a wake-up that is missing.
func TestWatcherSleepsDuringLongCallback(t *testing.T) {
	const long, most = 100 * time.Millisecond, 2 * missesMost
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	var rs [2]*Runner
	came := make(chan struct{}, 1)
	for i := range rs {
		m := b.open(btl.Config{})
		mustHandleTag(t, m, 1, func(*btl.Endpoint, btl.Tag, []byte) { came <- struct{}{} })
		rs[i] = New(m, Config{Park: time.Hour}, nil)
	}
	defer func() {
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
		defer cancel()
		for _, r := range rs {
			if err := r.Close(ctx); err != nil {
				t.Error(err)
			}
		}
	}()
	ep, err := rs[0].Connect(t.Context(), rs[1].m.Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		err = rs[1].Do(t.Context(), func(*btl.Module) error {
			before := rs[1].watcher.naps.Load()
			time.Sleep(long)
			if n := rs[1].watcher.naps.Load() - before; n > most {
				t.Errorf("the watcher has slept %d times in one callback, want at most %d", n, most)
			}
			return nil
		})
		if err != nil {
			t.Fatal(err)
		}
		if err := rs[0].SendBuffered(t.Context(), ep, 1, nil); err != nil {
			t.Fatal(err)
		}
		select {
		case <-came:
		case <-time.After(10 * time.Second):
			t.Fatal("no goroutine drives the module after a long callback")
		}
	}
}

// The end of its context ends a call that sleeps, also over a fabric on which the call sleeps while
// it owns the module. Config.Park is too long for a wake-up that is missing: the sleep would end
// with the first keep-alive, which a module sends only when the peer has been silent for a while.
func TestContextEndsSleep(t *testing.T) {
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	r := New(b.open(btl.Config{}), Config{Park: time.Hour}, nil)
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Millisecond)
	defer cancel()
	err := r.Await(ctx, func(*btl.Module, Waker) error { return nil })
	if !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Await returns %v", err)
	}
	if err := r.Close(t.Context()); err != nil {
		t.Error(err)
	}
}

// The watcher naps while it fails to lock the token, and after missesMost failed attempts waits for
// the release of the token.
func TestWatcherSeek(t *testing.T) {
	w := watcher{park: time.Hour, relief: make(chan struct{}, 1)}
	defer w.end()
	var u turn
	if !w.seek(&u) {
		t.Fatal("a free token was not locked")
	}
	for range missesMost - 1 {
		if w.seek(&u) {
			t.Fatal("a locked token was locked again")
		}
	}
	if n := w.naps.Load(); n != missesMost-1 {
		t.Errorf("%d naps, want %d", n, missesMost-1)
	}
	w.released()
	if len(w.relief) != 0 {
		t.Error("the watcher is woken, and does not wait for the token")
	}
	got := make(chan bool)
	go func() { got <- w.seek(&u) }()
	eventually(t, "the watcher to wait", w.waits.Load)
	w.released()
	if <-got || w.waits.Load() || w.misses != 0 {
		t.Errorf("after the release: waits %v, %d misses", w.waits.Load(), w.misses)
	}
}
