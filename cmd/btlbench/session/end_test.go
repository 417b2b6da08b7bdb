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

// A hot loop waits for its client although the client has stopped the round. The client loses its
// place after a while, or when the server ends.
func TestStoppedRoundEnds(t *testing.T) {
	for _, signal := range []bool{false, true} {
		synctest.Test(t, func(t *testing.T) {
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
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
				time.AfterFunc(time.Second, cancel)
			}
			go func() { s.inbox <- &message{Type: msgStop, Stop: &stopMsg{}} }()
			begin := time.Now()
			_, err := s.awaitStop(r, ended)
			most := time.Minute + endAllowance + 2*time.Second
			if signal {
				most = 3 * time.Second
			}
			if took := time.Since(begin); !errors.Is(err, layers.ErrHalted) || took > most {
				t.Errorf("signal %v: ended after %v: %v", signal, took, err)
			}
		})
	}
}
