package session

import (
	"context"
	"errors"
	"net"
	"testing"
	"testing/synctest"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

var errSignal = errors.New("the server ends")

// A hot loop waits for its client although the client has stopped the round. The client loses its
// place after a while, or when the server ends.
func TestStoppedRoundEnds(t *testing.T) {
	for _, signal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			defer cancel(nil)
			here, there := net.Pipe()
			defer there.Close()
			s := &serverSession{session: newSession(newControlConn(here)), ctx: ctx}
			defer s.close()
			r := &layers.Round{Spec: plan.Spec{PeerTimeoutNs: int64(time.Minute)}}
			ended := make(chan error, 1)
			go func() { // the hot loop
				for n := 0; !r.Halted.Load() && n < 1000; n++ {
					time.Sleep(time.Second)
				}
				ended <- nil
			}()
			if signal {
				time.AfterFunc(time.Second, func() { cancel(errSignal) })
			}
			go func() { s.inbox <- &message{Type: msgStop, Stop: &stopMsg{}} }()
			begin := time.Now()
			_, err := s.awaitStop(r, ended)
			most, want := time.Minute+endAllowance+2*time.Second, layers.ErrHalted
			if signal {
				most, want = 3*time.Second, errSignal
			}
			if took := time.Since(begin); !errors.Is(err, want) || took > most {
				t.Errorf("signal %v: ended after %v: %v", signal, took, err)
			}
		})
	}
}

// The end of a server halts its rounds. The reason for the end is the error of a round, whether the
// round or the server is seen to end first, and however the hot loop ends.
func TestEndOfServer(t *testing.T) {
	errOwn := errors.New("of the hot loop")
	for _, c := range []struct{ loop, want error }{
		{nil, errSignal}, {layers.ErrHalted, errSignal}, {errOwn, errOwn},
	} {
		for _, stopped := range []bool{false, true} {
			for range 20 { // which of two ready channels is taken is random
				ctx, cancel := context.WithCancelCause(t.Context())
				here, there := net.Pipe()
				s := &serverSession{session: newSession(newControlConn(here)), ctx: ctx}
				r := &layers.Round{Spec: plan.Spec{PeerTimeoutNs: int64(time.Minute)}}
				ended := make(chan error, 1)
				ended <- c.loop
				cancel(errSignal)
				var err error
				if stopped {
					err = s.awaitEnd(r, ended)
				} else {
					_, err = s.awaitStop(r, ended)
				}
				// A stopped round whose hot loop has ended without an error has its results.
				complete := stopped && c.loop == nil && err == nil
				if !complete && !errors.Is(err, c.want) {
					t.Errorf("stopped %v, the hot loop ended with %v: %v", stopped, c.loop, err)
				}
				there.Close()
				s.close()
			}
		}
	}
}
