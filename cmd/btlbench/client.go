package main

import (
	"errors"
	"fmt"
	"net"
	"time"
)

// clientSession drives a server through the rounds of a run.
type clientSession struct {
	*session
	env    *environment
	addr   string
	side   *side
	peer   []layerOffer
	remote sideFacts // the server's
	rounds uint64    // begun so far
	over   bool      // the server was told of an error, and need not be told goodbye
}

// openClient connects to a server and brings the layers of both sides together.
func openClient(env *environment, addr string, f *runFlags) (*clientSession, error) {
	conn, err := dialControl(env, addr, f.Timeout)
	if err != nil {
		return nil, err
	}
	c := &clientSession{session: newSession(conn), env: env, addr: addr}
	if err := c.setup(f); err != nil {
		c.close()
		return nil, err
	}
	return c, nil
}

func (c *clientSession) setup(f *runFlags) (err error) {
	cfg := newSideConfig(&f.benchFlags, f.Timeout)
	c.side, err = openSide(cfg, nodeOr(f.Node, c.conn.conn.LocalAddr()), f.cpu())
	if err != nil {
		c.conn.sendError(err)
		return err
	}
	setup := &setupMsg{Config: c.side.cfg, Layers: c.side.offers()}
	if err := c.conn.send(&message{Type: msgSetup, Setup: setup}, f.Timeout); err != nil {
		return c.because(err)
	}
	m, err := c.await(msgOpened, f.Timeout)
	if err != nil {
		return c.because(err)
	}
	if m.Opened == nil {
		return fmt.Errorf("%w: empty answer to the setup", errProtocol)
	}
	c.peer, c.remote = m.Opened.Layers, m.Opened.Side
	if err := c.conn.send(&message{Type: msgMeet}, f.Timeout); err != nil {
		return c.because(err)
	}
	if err := c.side.connect(c.peer); err != nil {
		return c.because(err)
	}
	if _, err = c.await(msgMet, f.Timeout); err != nil {
		return c.because(err)
	}
	return nil
}

// because prefers the reason why the session failed to what came of it, and names the server.
func (c *clientSession) because(err error) error {
	if failure := c.err(); failure != nil {
		err = failure
	} else {
		c.conn.sendError(err)
	}
	c.over = true
	return fmt.Errorf("%s: %w", c.addr, err)
}

// byeGrace bounds how long a client waits for the server to hang up.
const byeGrace = time.Second

// close says goodbye, if there is somebody to hear it, and closes this side.
func (c *clientSession) close() {
	said := !c.over && c.err() == nil && c.conn.send(&message{Type: msgBye}, time.Second) == nil
	if c.side != nil {
		c.side.close()
	}
	if said { // The server hangs up when it is ready for the next client.
		select {
		case <-c.failed:
		case <-time.After(byeGrace):
		}
	}
	c.session.close()
}

// outcome is what both sides saw of a round.
type outcome struct {
	meter  meter
	client roundResult
	server roundResult
}

// runRound runs one round. When the user interrupts it, what was measured until then is its
// outcome.
func (c *clientSession) runRound(spec *roundSpec, h *hist) (*outcome, error) {
	o, err := c.tryRound(spec, h)
	if err != nil {
		return nil, fmt.Errorf("in the middle of %s: %w", spec, c.because(err))
	}
	return o, nil
}

func (c *clientSession) tryRound(spec *roundSpec, h *hist) (*outcome, error) {
	l := c.side.layer(spec.Layer)
	r := &round{roundSpec: *spec, meter: meter{hist: h}}
	c.rounds++
	r.Number = c.rounds
	c.begin(r)
	var before layerCounters
	err := c.side.engine.do(func() (err error) {
		r.Handle, err = l.prepare(r)
		before = l.counters()
		return err
	})
	if err != nil {
		return nil, err
	}
	tidyHeap()
	request := &message{Type: msgRound, Round: &r.roundSpec}
	if err := c.conn.send(request, c.side.cfg.peerTimeout()); err != nil {
		return nil, err
	}
	m, err := c.await(msgReady, c.side.cfg.peerTimeout()+time.Second)
	if err != nil {
		return nil, err
	}
	if m.Ready == nil {
		return nil, fmt.Errorf("%w: empty ready", errProtocol)
	}
	r.Handle = m.Ready.Handle
	release := c.stopOnInterrupt(r)
	err = c.side.engine.do(func() error { return l.client(r) })
	release()
	if err != nil {
		return nil, err
	}
	return c.collect(r, l, before)
}

// stopOnInterrupt ends the round early, in good order, when the user asks to stop.
func (c *clientSession) stopOnInterrupt(r *round) (release func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-c.env.ctx.Done():
			r.stopped.Store(true)
		case <-done:
		}
	}()
	return func() { close(done) }
}

// collect stops the server's side of a round and puts both sides together.
func (c *clientSession) collect(r *round, l layer, before layerCounters) (*outcome, error) {
	stop := &message{Type: msgStop, Stop: &stopMsg{
		Sent: r.sent, LoadSent: r.loadSent, MeasuredNs: int64(r.meter.elapsed),
	}}
	if err := c.conn.send(stop, c.side.cfg.peerTimeout()); err != nil {
		return nil, err
	}
	m, err := c.await(msgResult, c.side.cfg.peerTimeout()+time.Second)
	if err != nil {
		return nil, err
	}
	if m.Result == nil {
		return nil, fmt.Errorf("%w: empty result", errProtocol)
	}
	r.finish(m.Result.Sent, 0)
	o := &outcome{meter: r.meter, server: *m.Result}
	o.client = roundResult{Tally: r.tally, Usage: r.usage, Sent: r.sent}
	err = c.side.engine.do(func() error {
		o.client.Counters, o.client.State = l.counters().since(before), l.state()
		return nil
	})
	return o, err
}

// nodeOr returns the address to bind that the user named, or else the one that the control
// connection uses: it is of the network that leads to the peer.
func nodeOr(node string, local net.Addr) nodeHint {
	if node != "" {
		return nodeHint{node, true}
	}
	tcp, ok := local.(*net.TCPAddr)
	if !ok || tcp.IP.IsUnspecified() {
		return nodeHint{}
	}
	hint := nodeHint{addr: tcp.IP.String()}
	if tcp.Zone != "" {
		hint.addr += "%" + tcp.Zone
	}
	return hint
}

// isInterrupt tells a wish of the user from a failure.
func isInterrupt(err error) bool {
	var sig *signalError
	return errors.As(err, &sig)
}
