package session

import (
	"context"
	"fmt"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// Client is one stream of a Group, which requests the rounds of a run from a server.
type Client struct {
	*session
	ctx    context.Context //nolint:containedctx // It is the lifetime of the session, not of a call.
	addr   string
	Side   *layers.Side
	Peer   []layers.Offer
	Remote layers.SideFacts // the server's
	rounds uint64           // begun so far
	over   bool             // the server was told of an error, and need not be told goodbye
}

// open connects to a server and connects the layers of both sides, for stream i of a run.
func open(ctx context.Context, addr, run string, f *plan.Flags, o Options, i int,
) (*Client, error) {
	conn, err := dialControl(ctx, addr, run, o.Timeout)
	if err != nil {
		return nil, err
	}
	c := &Client{session: newSession(conn), ctx: ctx, addr: addr}
	if err := c.setup(f, o, i); err != nil {
		c.Close()
		return nil, err
	}
	return c, nil
}

func (c *Client) setup(f *plan.Flags, o Options, i int) (err error) {
	cfg := layers.NewConfig(f, o.Timeout)
	c.Side, err = layers.Open(cfg, layers.NodeOr(o.Node, c.conn.conn.LocalAddr()), o.cpu(i))
	if err != nil {
		c.conn.sendError(err)
		return err
	}
	setup := &setupMsg{Config: c.Side.Cfg, Layers: c.Side.Offers()}
	m, err := c.ask(&message{Type: msgSetup, Setup: setup}, msgOpened, o.Timeout, o.Timeout)
	if err != nil {
		return c.because(err)
	}
	c.Peer, c.Remote = m.Opened.Layers, m.Opened.Side
	// Both sides of a session connect at the same time, and the answer arrives when the server has
	// connected.
	if err := c.conn.send(&message{Type: msgMeet}, o.Timeout); err != nil {
		return c.because(err)
	}
	if err := c.Side.Connect(c.Peer); err != nil {
		return c.because(err)
	}
	if _, err = c.await(msgMet, o.Timeout); err != nil {
		return c.because(err)
	}
	return nil
}

// because returns the reason why the session failed, in preference to errors that follow from it,
// and names the server.
func (c *Client) because(err error) error {
	if failure := c.err(); failure != nil {
		err = failure
	} else {
		c.conn.sendError(err)
	}
	c.over = true
	return fmt.Errorf("%s: %w", c.addr, err)
}

// byeGrace is how long a client waits for the server to close the connection.
const byeGrace = time.Second

// Close says goodbye if the server is connected, and closes this side.
func (c *Client) Close() {
	said := !c.over && c.err() == nil && c.conn.send(&message{Type: msgBye}, time.Second) == nil
	if c.Side != nil {
		c.Side.Close()
	}
	if said { // The server hangs up when it is ready for the next client.
		select {
		case <-c.failed:
		case <-time.After(byeGrace):
		}
	}
	c.session.close()
}

// Outcome has the results of both sides of a round.
type Outcome struct {
	Meter  layers.Meter
	Client RoundResult
	Server RoundResult
}

// Meters receives the measurements of a round.
type Meters struct {
	Hist    *layers.Hist    // round trips; nil in tests of a flow
	Reports *layers.Reports // intervals; nil for none

	// start waits until all streams of the round may begin.
	start func() error
}

// runRound runs one round. If the user interrupts the round, its outcome covers the time before the
// interruption.
func (c *Client) runRound(spec *plan.Spec, m Meters) (*Outcome, error) {
	o, err := c.tryRound(spec, m)
	if err != nil {
		return nil, fmt.Errorf("in the middle of %s: %w", spec, c.because(err))
	}
	return o, nil
}

func (c *Client) tryRound(spec *plan.Spec, m Meters) (*Outcome, error) {
	l := c.Side.Layer(spec.Layer)
	r := &layers.Round{Spec: *spec, Meter: layers.Meter{Hist: m.Hist}, Reports: m.Reports}
	c.rounds++
	r.Number = c.rounds
	c.begin(r)
	var before layers.Counters
	err := c.Side.Do(func() (err error) {
		r.Handle, err = l.Prepare(r)
		before = l.Counters()
		return err
	})
	if err != nil {
		return nil, err
	}
	layers.TidyHeap()
	request, patience := &message{Type: msgRound, Round: &r.Spec}, c.Side.Cfg.PeerTimeout()
	ready, err := c.ask(request, msgReady, patience, patience+time.Second)
	if err != nil {
		return nil, err
	}
	r.Handle = ready.Ready.Handle
	if err := m.start(); err != nil {
		return nil, err
	}
	release := c.stopOnInterrupt(r)
	err = c.Side.Do(func() error { return l.Client(r) })
	release()
	if err != nil {
		return nil, err
	}
	return c.collect(r, l, before)
}

// stopOnInterrupt ends the round early when the user asks to stop.
func (c *Client) stopOnInterrupt(r *layers.Round) (release func()) {
	done := make(chan struct{})
	go func() {
		select {
		case <-c.ctx.Done():
			r.Stopped.Store(true)
		case <-done:
		}
	}()
	return func() { close(done) }
}

// collect stops the server's side of a round and combines the results of both sides.
func (c *Client) collect(r *layers.Round, l layers.Layer, before layers.Counters,
) (*Outcome, error) {
	stop := &message{Type: msgStop, Stop: &stopMsg{
		Sent: r.Sent, LoadSent: r.LoadSent, MeasuredNs: int64(r.Meter.Elapsed),
	}}
	patience := c.Side.Cfg.PeerTimeout()
	m, err := c.ask(stop, msgResult, patience, patience+time.Second)
	if err != nil {
		return nil, err
	}
	r.Finish(m.Result.Sent, 0)
	o := &Outcome{Meter: r.Meter, Server: *m.Result}
	o.Client = RoundResult{Tally: r.Tally, Usage: r.Usage, Sent: r.Sent}
	err = c.Side.Do(func() error {
		o.Client.Counters, o.Client.State = l.Counters().Since(before), l.State()
		return nil
	})
	return o, err
}
