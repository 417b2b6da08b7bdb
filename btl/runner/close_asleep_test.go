package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// Close ends calls that wait for what never comes, however they wait: in the kernel with the token
// or without it, or polling.
func TestCloseBesideWaitingCalls(t *testing.T) {
	for name, open := range map[string]func() *btl.Module{
		"shm": func() *btl.Module { return openShm(t, nil) },
		"mem": func() *btl.Module {
			return (&bench{tb: t, net: mem.New(mem.Config{})}).open(btl.Config{})
		},
	} {
		for _, wait := range []Waiting{WaitAdaptive, WaitBusy, WaitEvent} {
			r := New(open(), Config{Wait: wait}, nil)
			const calls = 3
			begun, ended := make(chan struct{}, calls), make(chan error, calls)
			for range calls {
				go func() {
					ended <- r.Await(context.Background(), func(*btl.Module, Waker) error {
						begun <- struct{}{}
						return nil
					})
				}()
			}
			for range calls {
				<-begun
			}
			time.Sleep(2 * time.Millisecond) // They go to sleep, mostly.
			ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
			if err := r.Close(ctx); err != nil || ctx.Err() != nil {
				t.Fatalf("%s, %v: Close: %v, its context: %v", name, wait, err, ctx.Err())
			}
			cancel()
			for range calls {
				if err := <-ended; !errors.Is(err, btl.ErrClosed) {
					t.Errorf("%s, %v: %v", name, wait, err)
				}
			}
		}
	}
}
