package runner

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
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

type breakableDomain struct {
	sleeping
	breaks *atomic.Bool
}

// OpenEndpoint implements fabric.Domain.
func (d breakableDomain) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	ep, err := d.Domain.OpenEndpoint(cfg)
	return breakable{ep, d.breaks}, err
}

// A call that drives when the fabric breaks has its end, as those that wait behind it, and so has
// the Runner, whose watcher sleeps for long.
func TestRunnerFabricBreaks(t *testing.T) {
	var breaks atomic.Bool
	m := openShm(t, func(dom fabric.Domain) fabric.Domain {
		return breakableDomain{sleeping{dom}, &breaks}
	})
	r := New(m, Config{Park: time.Hour}, nil)
	eventually(t, "the watcher to sleep", r.turn.sleeping.Load)
	const behind = 3
	ends := make(chan error, 1+behind)
	for range behind {
		go func() {
			ends <- r.Await(context.Background(), func(*btl.Module, Waker) error { return nil })
		}()
	}
	eventually(t, "calls to wait", func() bool { return r.turn.blocked.Load() == behind })
	go func() {
		ends <- r.Await(context.Background(), func(*btl.Module, Waker) error {
			breaks.Store(true)
			return nil
		})
	}()
	for range cap(ends) {
		select {
		case err := <-ends:
			if !errors.Is(err, btl.ErrClosed) {
				t.Errorf("a call ends with %v", err)
			}
		case <-time.After(10 * time.Second):
			t.Fatal("a call goes on, although the fabric is broken")
		}
	}
	<-r.Done()
	if err := r.Err(); !errors.Is(err, errBreaks) {
		t.Errorf("the Runner has ended with %v", err)
	}
}
