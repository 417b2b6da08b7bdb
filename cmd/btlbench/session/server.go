package session

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/plain"
)

// serverSession serves one client, by opening the requested layers and taking part in its rounds.
type serverSession struct {
	*session
	ctx  context.Context //nolint:containedctx // It is the lifetime of the session, not of a call.
	side *layers.Side
	peer []layers.Offer

	served   servedList
	loan     *loan         // the memory of the rounds
	patience time.Duration // the longest time-out that a client gets
}

// setupAllowance is how long a client may take for its own set-up, in addition to its time-out.
const setupAllowance = 2 * time.Second

// serveClient serves a client from its hello to its goodbye. The argument slot of serveClient is
// the index of the client among those that are served at the same time. The memory of the rounds is
// taken from the loan l.
func serveClient(ctx context.Context, conn *controlConn, o Options, l *loan,
	opened func(*layers.Side), slot int,
) (served servedList, err error) {
	s := &serverSession{
		session: newSession(conn), ctx: ctx, loan: l,
		patience: cmp.Or(o.Patience, PatienceDefault),
	}
	defer s.close()
	defer l.giveBack() // after the end of the side
	m, err := s.await(msgSetup, o.Timeout+setupAllowance)
	if err != nil {
		return s.served, s.refuse(err)
	}
	for _, asked := range []time.Duration{m.Setup.Config.Timeout(), m.Setup.Config.PeerTimeout()} {
		if err := s.grants(asked); err != nil {
			return s.served, s.refuse(err)
		}
	}
	if err := layers.GrantSettings(m.Setup.Config.Set, s.grants); err != nil {
		return s.served, s.refuse(err)
	}
	m.Setup.Config.Server, m.Setup.Config.Peer = true, m.Setup.Layers
	m.Setup.Config.Set = append(m.Setup.Config.Set, o.Set...)
	s.peer = m.Setup.Layers
	node := layers.NodeOr(o.Node, conn.conn.LocalAddr())
	s.side, err = layers.Open(m.Setup.Config, node, o.cpu(slot))
	if err != nil {
		return s.served, s.refuse(err)
	}
	defer s.side.Close()
	opened(s.side)
	if err := s.meet(); err != nil {
		return s.served, s.refuse(err)
	}
	for {
		bye, err := s.serveRequest()
		if err != nil {
			return s.served, s.refuse(err)
		}
		if bye {
			return s.served, nil
		}
	}
}

// grants reports whether a client may have the requested time-out. The limit is needed because a
// silent client takes the place of other clients until its time-out.
func (s *serverSession) grants(asked time.Duration) error {
	if asked > s.patience {
		return fmt.Errorf("a time-out of %v: this server grants up to %v (serve --patience)", asked,
			s.patience)
	}
	return nil
}

// refuse sends the client the reason for the end of its session, if the client does not know it,
// and returns err.
func (s *serverSession) refuse(err error) error {
	if s.err() == nil || errors.Is(err, errProtocol) {
		s.conn.sendError(err)
	}
	return err
}

// meet answers the setup message, and connects the layers when the client has opened its own.
func (s *serverSession) meet() error {
	cfg := &s.side.Cfg
	opened := &openedMsg{Layers: s.side.Offers(), Side: s.side.Facts()}
	if err := s.conn.send(&message{Type: msgOpened, Opened: opened}, cfg.Timeout()); err != nil {
		return err
	}
	if _, err := s.await(msgMeet, cfg.Timeout()+setupAllowance); err != nil {
		return err
	}
	if err := s.side.Connect(s.peer); err != nil {
		return err
	}
	return s.conn.send(&message{Type: msgMet}, cfg.Timeout())
}

// serveRequest serves one round, or returns the client's goodbye.
func (s *serverSession) serveRequest() (bye bool, err error) {
	cfg := &s.side.Cfg
	select {
	case m := <-s.inbox:
		switch m.Type {
		case msgBye:
			return true, nil
		case msgRound:
			return false, s.serveRound(m.Round)
		}
		return false, fmt.Errorf("%w: unexpected %q", errProtocol, plain.Line(m.Type))
	case <-s.failed:
		return false, s.failure
	case <-s.ctx.Done():
		return false, context.Cause(s.ctx)
	case <-time.After(2*cfg.PeerTimeout() + cfg.Timeout()):
		return false, errors.New("client sends no request: given up")
	}
}

// serveRound takes part in one round until the client stops it.
func (s *serverSession) serveRound(spec *plan.Spec) error {
	err := spec.Validate()
	if err == nil {
		err = s.grants(time.Duration(spec.PeerTimeoutNs))
	}
	if err != nil {
		return err
	}
	l := s.side.Layer(spec.Layer)
	if l == nil {
		return fmt.Errorf("layer %q is not open", spec.Layer)
	}
	if reason := s.side.SkipReason(spec); reason != "" {
		return fmt.Errorf("this server cannot run %s: %s", spec, reason)
	}
	r := &layers.Round{Spec: *spec, Server: true}
	s.begin(r)
	release := context.AfterFunc(s.ctx, func() { r.Halted.Store(true) })
	defer release()
	var handle uint64
	var before layers.Counters
	err = s.side.Do(func() (err error) {
		if err := s.loan.grow(l.Memory(r)); err != nil {
			return err
		}
		handle, err = l.Prepare(r)
		before = l.Counters()
		return err
	})
	if err != nil {
		return fmt.Errorf("%s: %w", spec, s.because(err))
	}
	layers.TidyHeap()
	ended := make(chan error, 1)
	go func() { ended <- s.side.Do(func() error { return l.Server(r) }) }()
	ready := &message{Type: msgReady, Ready: &readyMsg{Handle: handle}}
	if err := s.conn.send(ready, s.side.Cfg.PeerTimeout()); err != nil {
		s.fail(err)
	}
	stop, err := s.awaitStop(r, ended)
	if err != nil {
		return fmt.Errorf("in the middle of %s: %w", spec, err)
	}
	r.Usage.Collections = layers.CollectionsSince(time.Now().Add(-time.Duration(stop.MeasuredNs)))
	r.Finish(stop.Sent, stop.LoadSent)
	result := &RoundResult{Tally: r.Tally, Usage: r.Usage, Sent: r.Sent}
	if err := s.side.Do(func() error {
		result.Counters, result.State = l.Counters().Since(before), l.State()
		return nil
	}); err != nil {
		return err
	}
	s.served.add(spec, result)
	return s.conn.send(&message{Type: msgResult, Result: result}, s.side.Cfg.PeerTimeout())
}

// awaitStop waits until the client stops the round and the hot loop has ended.
func (s *serverSession) awaitStop(r *layers.Round, ended <-chan error) (*stopMsg, error) {
	select {
	case m := <-s.inbox:
		r.Stopped.Store(true)
		if err := s.awaitEnd(r, ended); err != nil {
			return nil, err
		}
		if m.Type != msgStop {
			return nil, fmt.Errorf("%w: %q instead of %q", errProtocol, plain.Line(m.Type), msgStop)
		}
		return m.Stop, nil
	case err := <-ended: // Only an error ends the loop before the client does.
		return nil, s.because(cmp.Or(s.err(), err, layers.ErrHalted))
	case <-s.ctx.Done():
		r.Halted.Store(true)
		return nil, s.because(cmp.Or(<-ended, layers.ErrHalted))
	}
}

// because returns the reason for the end of the server, if that has halted the round with err.
func (s *serverSession) because(err error) error {
	if s.ctx.Err() != nil && errors.Is(err, layers.ErrHalted) {
		return context.Cause(s.ctx)
	}
	return err
}

// endAllowance is how long the hot loop may take to end, in addition to the peer time-out. The hot
// loop may sleep, and verify a large message.
const endAllowance = 5 * time.Second

// awaitEnd waits until the hot loop of a stopped round has ended. If the hot loop waits for a
// client that does not answer, the client loses its place.
func (s *serverSession) awaitEnd(r *layers.Round, ended <-chan error) error {
	select {
	case err := <-ended:
		return s.because(err)
	case <-s.ctx.Done():
	case <-time.After(time.Duration(r.PeerTimeoutNs) + endAllowance):
	}
	r.Halted.Store(true)
	return s.because(cmp.Or(<-ended, layers.ErrHalted))
}
