package main

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"
)

// session is what both sides share of a control connection that has said hello: a goroutine that
// reads it, so that a peer's death is noticed while the engine is in a hot loop.
type session struct {
	conn  *controlConn
	inbox chan *message
	// failed is closed when the session is over before its time; failure says why.
	failed   chan struct{}
	failure  error
	failOnce sync.Once

	current atomic.Pointer[round]
	reader  sync.WaitGroup
}

func newSession(conn *controlConn) *session {
	s := &session{conn: conn, inbox: make(chan *message), failed: make(chan struct{})}
	s.reader.Go(func() {
		for {
			m, err := s.conn.receive(0)
			if err != nil {
				s.fail(err)
				return
			}
			select {
			case s.inbox <- m:
			case <-s.failed:
				return
			}
		}
	})
	return s
}

// fail ends the session: the round that runs is halted. The first reason counts.
func (s *session) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = err
		close(s.failed)
	})
	if r := s.current.Load(); r != nil {
		r.halted.Store(true)
	}
}

// err is why the session failed, or nil.
func (s *session) err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// begin makes r the round that fail halts.
func (s *session) begin(r *round) {
	s.current.Store(r)
	if s.err() != nil {
		r.halted.Store(true)
	}
}

// await returns the next message, which must be of that type.
func (s *session) await(msgType string, timeout time.Duration) (*message, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case m := <-s.inbox:
		if m.Type != msgType {
			return nil, fmt.Errorf("%w: %q instead of %q", errProtocol, oneLine(m.Type), msgType)
		}
		return m, nil
	case <-s.failed:
		return nil, s.failure
	case <-timer.C:
		return nil, fmt.Errorf("peer does not answer on the control connection: no %q in %v",
			msgType, timeout)
	}
}

// close ends the connection and its reader.
func (s *session) close() {
	s.conn.close()
	s.fail(errHalted)
	s.reader.Wait()
}
