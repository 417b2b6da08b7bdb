package main

import (
	"errors"
	"fmt"
	"time"
)

// serverSession serves one client: it opens what the client asks for and answers its rounds.
type serverSession struct {
	*session
	env  *environment
	side *side
	peer []layerOffer
	// opened is told of the side, for its metrics.
	opened func(*side)
}

// setupAllowance is how long a client may take over its own set-up, beyond its timeout.
const setupAllowance = 2 * time.Second

// serveClient serves a client that has said hello until it says bye.
func serveClient(env *environment, conn *controlConn, f *serveCmd, opened func(*side)) error {
	s := &serverSession{session: newSession(conn), env: env, opened: opened}
	defer s.close()
	m, err := s.await(msgSetup, f.Timeout+setupAllowance)
	if err == nil && m.Setup == nil {
		err = fmt.Errorf("%w: empty setup", errProtocol)
	}
	if err != nil {
		return s.refuse(err)
	}
	m.Setup.Config.server = true
	m.Setup.Config.Set = append(m.Setup.Config.Set, f.Set...)
	s.peer = m.Setup.Layers
	s.side, err = openSide(m.Setup.Config, f.nodeFor(conn.conn.LocalAddr()), f.cpu())
	if err != nil {
		return s.refuse(err)
	}
	defer s.side.close()
	s.opened(s.side)
	if err := s.meet(); err != nil {
		return s.refuse(err)
	}
	for {
		bye, err := s.serveRequest()
		if err != nil {
			return s.refuse(err)
		}
		if bye {
			return nil
		}
	}
}

// refuse tells the client why its session ends, and returns err.
func (s *serverSession) refuse(err error) error {
	if s.err() == nil {
		s.conn.sendError(err)
	}
	return err
}

// meet answers the setup and connects the layers when the client has opened its own.
func (s *serverSession) meet() error {
	cfg := &s.side.cfg
	opened := &openedMsg{Layers: s.side.offers(), Side: s.side.facts()}
	if err := s.conn.send(&message{Type: msgOpened, Opened: opened}, cfg.timeout()); err != nil {
		return err
	}
	if _, err := s.await(msgMeet, cfg.timeout()+setupAllowance); err != nil {
		return err
	}
	if err := s.side.connect(s.peer); err != nil {
		return err
	}
	return s.conn.send(&message{Type: msgMet}, cfg.timeout())
}

// serveRequest serves one round, or reports the client's goodbye.
func (s *serverSession) serveRequest() (bye bool, err error) {
	cfg := &s.side.cfg
	select {
	case m := <-s.inbox:
		switch {
		case m.Type == msgBye:
			return true, nil
		case m.Type == msgRound && m.Round != nil:
			return false, s.serveRound(m.Round)
		}
		return false, fmt.Errorf("%w: unexpected %q", errProtocol, oneLine(m.Type))
	case <-s.failed:
		return false, s.failure
	case <-s.env.ctx.Done():
		return false, s.env.cause()
	case <-time.After(2*cfg.peerTimeout() + cfg.timeout()):
		return false, errors.New("client sends no request: given up")
	}
}

// serveRound answers one round until the client stops it.
func (s *serverSession) serveRound(spec *roundSpec) error {
	if err := spec.validate(); err != nil {
		return err
	}
	l := s.side.layer(spec.Layer)
	if l == nil {
		return fmt.Errorf("layer %q is not open", spec.Layer)
	}
	r := &round{roundSpec: *spec, server: true}
	s.begin(r)
	var handle uint64
	var before layerCounters
	err := s.side.engine.do(func() (err error) {
		handle, err = l.prepare(r)
		before = l.counters()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", spec, err)
	}
	tidyHeap()
	ended := make(chan error, 1)
	go func() { ended <- s.side.engine.do(func() error { return l.server(r) }) }()
	ready := &message{Type: msgReady, Ready: &readyMsg{Handle: handle}}
	if err := s.conn.send(ready, s.side.cfg.peerTimeout()); err != nil {
		s.fail(err)
	}
	stop, err := s.awaitStop(r, ended)
	if err != nil {
		return fmt.Errorf("in the middle of %s: %w", spec, err)
	}
	r.usage.Collections = collectionsSince(time.Now().Add(-time.Duration(stop.MeasuredNs)))
	r.finish(stop.Sent, stop.LoadSent)
	result := &roundResult{Tally: r.tally, Usage: r.usage, Sent: r.sent}
	if err := s.side.engine.do(func() error {
		result.Counters, result.State = l.counters().since(before), l.state()
		return nil
	}); err != nil {
		return err
	}
	return s.conn.send(&message{Type: msgResult, Result: result}, s.side.cfg.peerTimeout())
}

// awaitStop waits until the client stops the round and the hot loop has ended.
func (s *serverSession) awaitStop(r *round, ended <-chan error) (*stopMsg, error) {
	select {
	case m := <-s.inbox:
		r.stopped.Store(true)
		if err := <-ended; err != nil {
			return nil, err
		}
		if m.Type != msgStop || m.Stop == nil {
			return nil, fmt.Errorf("%w: %q instead of %q", errProtocol, oneLine(m.Type), msgStop)
		}
		return m.Stop, nil
	case err := <-ended: // Only an error ends the loop before the client does.
		if failure := s.err(); failure != nil {
			err = failure
		}
		if err == nil {
			err = errHalted
		}
		return nil, err
	case <-s.env.ctx.Done():
		r.halted.Store(true)
		if err := <-ended; err != nil && !errors.Is(err, errHalted) {
			return nil, err
		}
		return nil, s.env.cause()
	}
}
