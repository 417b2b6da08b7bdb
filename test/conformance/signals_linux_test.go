package conformance

import (
	"errors"
	"os"
	"os/signal"
	"runtime"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
)

func init() {
	scenarios = append(scenarios,
		scenario{name: "sighandler_wait", run: testSignalsInWait, threads: true},
		scenario{name: "sighandler_runner", run: testSignalsInRunner, threads: true})
}

// bombard sends signals to one thread of this process until the test ends. Go's handlers are
// installed with SA_RESTART, which epoll_wait and its like ignore: they return EINTR all the same.
func bombard(t *testing.T, tid int) (sent *atomic.Int64) {
	t.Helper()
	caught := make(chan os.Signal, 1)
	signal.Notify(caught, syscall.SIGUSR1) // keeps the default action away
	stop, stopped := make(chan struct{}), make(chan struct{})
	sent = new(atomic.Int64)
	go func() {
		defer close(stopped)
		for {
			select {
			case <-stop:
				return
			case <-time.After(100 * time.Microsecond):
			}
			err := unix.Tgkill(os.Getpid(), tid, unix.SIGUSR1)
			if err != nil && !errors.Is(err, unix.ESRCH) {
				t.Errorf("tgkill: %v", err)
			}
			sent.Add(1)
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-stopped
		signal.Stop(caught)
	})
	return sent
}

// slowest is the longest that a message may take among signals. A wake-up that is lost shows as the
// end of a sleep, which is longer.
const (
	slowest = 2 * time.Second
	sleep   = 6 * time.Second
)

// testSignalsInWait, model: fabtests functional/sighandler. A thread in Module.Wait is hit by
// signals all the time; it misses no message, no Wake, and no deadline.
func testSignalsInWait(t *testing.T, fx *fixture) {
	nw := fx.open(t, opts{})
	ctx := patient(t)
	cfg := btl.Config{}
	dom, err := nw.station(t).open(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, ok := dom.(fabric.Waiter); !ok {
		t.Fatal("the domain cannot wait")
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		t.Fatal(err)
	}
	got := make(chan int, 1)
	err = m.Handle(tagEcho, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { got <- len(data) })
	if err != nil {
		t.Fatal(err)
	}
	name := m.Name()
	tid, stop, stopped := make(chan int), make(chan struct{}), make(chan struct{})
	var early atomic.Int64
	go func() {
		defer close(stopped)
		runtime.LockOSThread()
		tid <- unix.Gettid()
		for start := time.Now(); ; {
			now := btl.Time(time.Since(start)) + 1
			n, err := m.Progress(now)
			if err != nil {
				t.Errorf("progress: %v", err)
				return
			}
			select {
			case <-stop:
				return
			default:
			}
			d := sleep
			if next := m.Deadline(); next != btl.Never {
				d = min(d, next.Sub(now))
			}
			if n > 0 || d <= 0 {
				continue
			}
			if err := m.Wait(d); err != nil {
				t.Errorf("wait: %v", err)
				return
			}
			early.Add(1)
		}
	}()
	end := sync.OnceFunc(func() {
		close(stop)
		m.Wake()
		<-stopped
		if err := m.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	defer end()
	signals := bombard(t, <-tid)
	client := openRunner(t, nw, btl.Config{}, runner.Config{Spin: -1}, nil)
	ep, err := client.Connect(ctx, name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		size := []int{1, 1400, 5000}[i%3]
		begin := time.Now()
		if err := client.Send(ctx, ep, tagEcho, make([]byte, size)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		select {
		case n := <-got:
			if n != size {
				t.Errorf("message %d of %d bytes arrived as %d", i, size, n)
			}
		case <-ctx.Done():
			t.Fatalf("message %d did not arrive", i)
		}
		if d := time.Since(begin); d > slowest {
			t.Errorf("message %d took %v: a wake-up was lost", i, d)
		}
		time.Sleep(time.Duration(i%7) * 100 * time.Microsecond)
	}
	if err := client.Close(ctx); err != nil {
		t.Error(err)
	}
	begin := time.Now()
	end()
	if d := time.Since(begin); d > slowest {
		t.Errorf("Wake took %v", d)
	}
	if signals.Load() == 0 {
		t.Error("no signal was sent")
	}
	t.Logf("%d signals, %d waits", signals.Load(), early.Load())
}

// testSignalsInRunner, model: fabtests functional/sighandler too, with a Runner that never spins on
// either side: messages, operations from other goroutines and their answers all get through.
func testSignalsInRunner(t *testing.T, fx *fixture) {
	nw := fx.open(t, opts{})
	ctx := patient(t)
	tids := make(chan int, 2)
	rc := runner.Config{Spin: -1, Park: sleep, Setup: func() error {
		tids <- unix.Gettid()
		return nil
	}}
	got := make(chan struct{}, 1)
	server := openRunner(t, nw, btl.Config{}, rc, func(m *btl.Module) {
		err := m.Handle(tagEcho, func(*btl.Endpoint, btl.Tag, []byte) { got <- struct{}{} })
		if err != nil {
			t.Fatal(err)
		}
	})
	client := openRunner(t, nw, btl.Config{}, rc, nil)
	a, b := bombard(t, <-tids), bombard(t, <-tids)
	ep, err := client.Connect(ctx, server.name)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 60 {
		begin := time.Now()
		if err := client.Send(ctx, ep, tagEcho, make([]byte, i*100)); err != nil {
			t.Fatalf("message %d: %v", i, err)
		}
		select {
		case <-got:
		case <-ctx.Done():
			t.Fatalf("message %d did not arrive", i)
		}
		if err := server.Do(ctx, func(*btl.Module) error { return nil }); err != nil {
			t.Fatal(err)
		}
		if d := time.Since(begin); d > slowest {
			t.Errorf("message %d took %v: a wake-up was lost", i, d)
		}
	}
	if a.Load() == 0 || b.Load() == 0 {
		t.Error("no signal was sent")
	}
}
