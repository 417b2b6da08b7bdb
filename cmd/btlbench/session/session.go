package session

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/internal/plain"
)

// Options are the settings of a side that the other side does not influence.
type Options struct {
	Node string // local address for the fabric; empty is that of the control connection
	// CPUs are the CPUs of the hot loops, which the sides of a process take in turn, or nil for any
	// CPU.
	CPUs    []int
	Timeout time.Duration
	Set     []string // tunables, NAME=VALUE; a server's
	// Patience is the longest time-out that a server grants a client, where 0 means
	// PatienceDefault.
	Patience time.Duration
}

// PatienceDefault is how long a silent client may keep other clients from being served.
const PatienceDefault = time.Minute

// cpu is the CPU of the hot loop of side i, where a negative number means any.
func (o *Options) cpu(i int) int {
	if len(o.CPUs) == 0 {
		return -1
	}
	return o.CPUs[i%len(o.CPUs)]
}

// session is the common part of both sides of a control connection after the hello. One goroutine
// reads the connection, so that the death of the peer is noticed while the engine is in a hot loop.
type session struct {
	conn  *controlConn
	inbox chan *message
	// The field failed is closed when the session ends early, and failure is the reason.
	failed   chan struct{}
	failure  error
	failOnce sync.Once

	current atomic.Pointer[layers.Round]
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

// fail ends the session and halts the present round, and only the first reason counts.
func (s *session) fail(err error) {
	s.failOnce.Do(func() {
		s.failure = err
		close(s.failed)
	})
	if r := s.current.Load(); r != nil {
		r.Halted.Store(true)
	}
}

// err is the reason why the session has failed, or nil.
func (s *session) err() error {
	select {
	case <-s.failed:
		return s.failure
	default:
		return nil
	}
}

// begin makes r the round that fail will halt.
func (s *session) begin(r *layers.Round) {
	s.current.Store(r)
	if s.err() != nil {
		r.Halted.Store(true)
	}
}

// await returns the next message, which must have the given type.
func (s *session) await(msgType string, timeout time.Duration) (*message, error) {
	timer := time.NewTimer(timeout)
	defer timer.Stop()
	select {
	case m := <-s.inbox:
		if m.Type != msgType {
			return nil, fmt.Errorf("%w: %q instead of %q", errProtocol, plain.Line(m.Type), msgType)
		}
		return m, nil
	case <-s.failed:
		return nil, s.failure
	case <-timer.C:
		return nil, fmt.Errorf("peer does not answer on the control connection: no %q in %v",
			msgType, timeout)
	}
}

// ask sends a request and returns its answer, which must have the given type.
func (s *session) ask(request *message, answer string, sendTimeout, timeout time.Duration,
) (*message, error) {
	if err := s.conn.send(request, sendTimeout); err != nil {
		return nil, err
	}
	return s.await(answer, timeout)
}

// close ends the connection and its reader.
func (s *session) close() {
	s.conn.close()
	s.fail(layers.ErrHalted)
	s.reader.Wait()
}
