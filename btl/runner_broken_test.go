package btl

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/fabric"
)

var errBreaks = errors.New("the fabric breaks")

// breakable is an endpoint of a fabric that breaks when it is told to.
type breakable struct {
	fabric.Endpoint
	breaks *atomic.Bool
}

// Poll implements fabric.Endpoint.
func (e breakable) Poll(out []fabric.Completion) (int, error) {
	if e.breaks.Load() {
		return 0, errBreaks
	}
	return e.Endpoint.Poll(out)
}

// A call that drives when the fabric breaks has its end, as those that wait behind it, and so has
// the Runner, whose watcher sleeps for long.
func TestRunnerFabricBreaks(t *testing.T) {
	m := openShm(t, Config{})
	var breaks atomic.Bool
	for _, c := range [...]*channel{&m.cmd, &m.data} {
		c.ep = breakable{c.ep, &breaks}
	}
	r := NewRunner(m, RunnerConfig{Park: time.Hour}, nil)
	eventually(t, "the watcher to sleep", r.sleeping.Load)
	const behind = 3
	ends := make(chan error, 1+behind)
	for range behind {
		go func() {
			ends <- r.Await(context.Background(), func(*Module, Waker) error { return nil })
		}()
	}
	eventually(t, "calls to wait", func() bool { return r.blocked.Load() == behind })
	go func() {
		ends <- r.Await(context.Background(), func(*Module, Waker) error {
			breaks.Store(true)
			return nil
		})
	}()
	for range cap(ends) {
		select {
		case err := <-ends:
			if !errors.Is(err, ErrClosed) {
				t.Errorf("a call ends with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a call goes on, although the fabric is broken")
		}
	}
	if err := r.Err(); !errors.Is(err, errBreaks) {
		t.Errorf("the Runner has ended with %v", err)
	}
}
