package layers

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/cmd/btlbench/plan"
)

// runnerPort is one side's endpoint of the transport as ordinary programs use it, which is a module
// behind a runner.Runner. The client calls the Runner from the engine's goroutine and waits, and
// the server's handlers send the replies. State of the goroutine that drives the module is accessed
// only in Do and in handlers.
type runnerPort struct {
	m     *btl.Module
	run   *runner.Runner
	ep    *btl.Endpoint
	cfg   *Config
	known Facts
	up    chan *btl.Endpoint // the server's connection
	down  chan error         // why that connection has ended

	waiter waiter // of the engine's thread, which never waits by it

	// The following fields belong to the goroutine that drives the module.
	r     *Round
	waker runner.Waker // of the client's ping
	due   int          // replies that the server has not sent yet
	held  int          // bytes of the server's replies that the transport still uses
	// The field wrong is the reason why the round must end, or nil.
	wrong       error
	mostBytes   uint32 // the longest message of all rounds so far
	replyDoneFn func(*btl.Fragment, error)
	// owed tells the server that wrong is set, or that replies have found no room.
	owed chan struct{}
}

var _ Layer = (*runnerPort)(nil)

// openRunner makes a Runner drive the module of a new port, on one CPU unless the number is
// negative.
func openRunner(p *btlPort, cpu int) *runnerPort {
	q := &runnerPort{
		m: p.m, cfg: p.cfg, known: p.facts(), waiter: p.waiter,
		up: make(chan *btl.Endpoint, 1), down: make(chan error, 1), owed: make(chan struct{}, 1),
	}
	q.replyDoneFn = q.onReplyDone
	rc := runner.Config{Wait: q.cfg.wait()}
	if cpu >= 0 {
		rc.Setup = func() error { return PinThread(cpu) }
	}
	var first *btl.Endpoint
	q.run = runner.New(q.m, rc, func(ep *btl.Endpoint, ev btl.Event, err error) {
		switch {
		case ev == btl.EventConnected && first == nil:
			first = ep
			q.up <- ep
		case ev != btl.EventConnected && first == ep:
			q.down <- cmp.Or(err, btl.ErrClosed)
		}
	})
	return q
}

func (q *runnerPort) offer() Offer {
	limits := q.m.Limits()
	return Offer{
		Layer: plan.LayerRunner, Name: q.m.Name(), RecvCapacity: limits.CreditPackets,
		MTUBytes: limits.MTUBytes, MessageBytesMax: limits.FragmentBytesMax,
	}
}

func (q *runnerPort) connect(peer Offer, timeout time.Duration) (err error) {
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	if !q.cfg.Server {
		q.ep, err = q.run.Connect(ctx, peer.Name)
		return err
	}
	select {
	case q.ep = <-q.up:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("%w within %v", btl.ErrUnreachable, timeout)
	}
}

// Memory implements Layer: a server has memory for its replies. The window of a client is not
// included, because nobody asks for it.
func (q *runnerPort) Memory(r *Round) int64 { return int64(replyBytes(r)) }

// replyBytes is the memory for the replies of a server that the peer has not acknowledged, which is
// enough for two replies, or for one of the largest size.
func replyBytes(r *Round) int {
	if !r.Server || r.Test != plan.TestLat {
		return 0
	}
	return plan.WindowFor(2, r.SizeBytes) * r.SizeBytes
}

// Prepare assigns all messages that arrive from now on to a round. The transport refuses messages
// longer than those of all rounds so far.
func (q *runnerPort) Prepare(r *Round) (handle uint64, err error) {
	return 0, q.run.Do(context.Background(), func(m *btl.Module) error {
		q.r, q.due, q.wrong = r, 0, nil
		q.mostBytes = max(q.mostBytes, arriving(r, tagData))
		return m.HandleUpTo(tagData, q.mostBytes, q.onData)
	})
}

// finish ends the receiving part of the round.
func (q *runnerPort) finish(r *Round) error {
	ctx, cancel := context.WithTimeout(context.Background(), time.Duration(r.PeerTimeoutNs))
	defer cancel()
	return q.run.Do(ctx, func(*btl.Module) error {
		q.r = nil
		return nil
	})
}

// onData handles a message, by sending the reply of a ping-pong's server or by waking the client.
func (q *runnerPort) onData(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	r := q.r
	if r == nil {
		return
	}
	r.Tally.Messages++
	r.Tally.Bytes += int64(len(data))
	if r.Verify {
		r.Tally.check(data, r.SizeBytes)
	}
	switch {
	case r.Test != plan.TestLat:
	case !r.Server:
		q.waker.Wake(nil)
	case len(data) != r.SizeBytes:
		if q.wrong == nil {
			q.wrong = fmt.Errorf("%w: it has %d bytes instead of %d", errPing, len(data), r.SizeBytes)
		}
		q.wakeServer()
	default:
		q.due++ // more than one only if the peer does not wait for replies
		q.replyNow(r)
	}
}

// errPing means that a message of a ping-pong has a wrong length. A short ping that demands a long
// reply would cost the server more than the client.
var errPing = errors.New("a ping of a wrong length")

// replyNow sends the replies that are due, from a callback, as far as there is room. The server is
// told of the rest if it does not wait for acknowledgements.
func (q *runnerPort) replyNow(r *Round) {
	if errors.Is(q.reply(r), btl.ErrAgain) { // Another error has ended the connection.
		q.wakeServer()
	}
}

func (q *runnerPort) wakeServer() {
	select {
	case q.owed <- struct{}{}:
	default: // The server has not looked yet.
	}
}

// reply sends the replies that are due, as far as the memory for replies permits, or returns the
// reason why it cannot. When the transport has ended a reply, onReplyDone sends the next one.
func (q *runnerPort) reply(r *Round) error {
	for q.wrong == nil && q.due > 0 && q.held+r.SizeBytes <= replyBytes(r) {
		if err := q.send(q.ep, r); err != nil {
			return err
		}
		q.due--
	}
	return q.wrong
}

// onReplyDone is called when the peer has acknowledged a reply that the transport has queued.
func (q *runnerPort) onReplyDone(f *btl.Fragment, err error) {
	q.held -= int(f.Context)
	if r := q.r; err == nil && r != nil && r.Server {
		q.replyNow(r)
	}
}

// send sends the next message of this side, or returns the reason why it cannot.
func (q *runnerPort) send(ep *btl.Endpoint, r *Round) error {
	f, err := ep.Alloc(tagData, r.SizeBytes)
	if err != nil {
		return err
	}
	if r.Verify {
		fillPattern(f.Bytes(), r.Sent)
	}
	if r.Server {
		f.Context, f.OnDone = uint64(r.SizeBytes), q.replyDoneFn
	}
	status, err := ep.Send(ep.Now(), f)
	if err != nil {
		return errors.Join(err, ep.Free(f))
	}
	if r.Server && status == btl.Queued {
		q.held += r.SizeBytes
	}
	r.Sent++
	return nil
}

// Server lets the handlers send replies until the round is over.
func (q *runnerPort) Server(r *Round) error {
	const look = 5 * time.Millisecond // whether the round is over
	watch, waits := startWatch(&q.waiter), q.run.Waits()
	ctx, cancel := contextOf(r)
	defer cancel()
	ticks := time.NewTicker(look)
	defer ticks.Stop()
	for !r.over() {
		select {
		case <-q.owed:
			err := q.run.DoFor(ctx, q.ep, func(*btl.Module) error { return q.reply(r) })
			if err != nil && !r.over() {
				return err
			}
		case err := <-q.down:
			return err
		case <-q.run.Done():
			return errors.Join(btl.ErrClosed, q.run.Err())
		case <-ticks.C:
		}
	}
	r.Usage = q.usage(watch, waits)
	return q.finish(r)
}

// usage is the resource usage of this side in a time span, including the waits of the Runner.
func (q *runnerPort) usage(watch stopwatch, before runner.Waits) Usage {
	u, now := watch.read(), q.run.Waits()
	u.Sleeps = now.Sleeps - before.Sleeps
	u.Yields = now.Yields - before.Yields
	u.Crowded = now.Crowded - before.Crowded
	return u
}

// contextOf returns a context that ends soon after a round.
func contextOf(r *Round) (context.Context, context.CancelFunc) {
	const look = 10 * time.Millisecond
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		ticks := time.NewTicker(look)
		defer ticks.Stop()
		for !r.over() {
			select {
			case <-ctx.Done():
				return
			case <-ticks.C:
			}
		}
		cancel()
	}()
	return ctx, cancel
}

// Client measures a round by calls of one goroutine.
func (q *runnerPort) Client(r *Round) error {
	ctx, cancel := contextOf(r)
	defer cancel()
	phase := q.stream
	if r.Test == plan.TestLat {
		phase = q.pingPong
	}
	_, err := phase(ctx, r, newLimit(r.WarmupMessages, r.WarmupNs, clock()))
	if err != nil {
		return q.because(r, err)
	}
	if r.Meter.Hist != nil {
		r.Meter.Hist.Reset()
	}
	watch, waits, begin := startWatch(&q.waiter), q.run.Waits(), clock()
	r.beginReports(begin, q.sentTotal)
	done, err := phase(ctx, r, newLimit(r.Messages, r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = q.usage(watch, waits)
	if r.Test == plan.TestLat {
		done *= 2 // each round trip is two messages
	}
	r.Meter.Messages, r.Meter.Bytes = done, done*int64(r.SizeBytes)
	return q.because(r, errors.Join(err, q.finish(r)))
}

// because drops an error that the end of the round has caused.
func (q *runnerPort) because(r *Round, err error) error {
	if r.over() {
		return nil
	}
	return err
}

// pingPong waits for the reply to each message.
func (q *runnerPort) pingPong(ctx context.Context, r *Round, l limit) (done int64, err error) {
	begin := func(_ *btl.Module, w runner.Waker) error {
		q.waker = w
		return q.send(q.ep, r)
	}
	for now := clock(); done < l.messages && now < l.until; done++ {
		if err := q.run.AwaitFor(ctx, q.ep, begin); err != nil {
			return done, err
		}
		end := clock()
		r.record(int64(end - now))
		if now = end; r.GapNs > 0 || r.reportDue(now) {
			if r.reportDue(now) {
				r.report(now)
			}
			time.Sleep(time.Duration(r.GapNs))
			now = clock()
		}
	}
	return done, nil
}

// The method stream keeps a window of sends in flight, each with its own memory, and in the test
// rate a whole window at a time.
func (q *runnerPort) stream(ctx context.Context, r *Round, l limit) (done int64, err error) {
	memory := make([]byte, r.Window*r.SizeBytes)
	pending := make([]runner.Pending, r.Window)
	window := int64(r.Window)
	var waited int64
	var p pace
	p.start(r.BytesPerNs, clock())
	for now := clock(); now < l.until && done < l.messages && !r.over(); now = clock() {
		if r.reportDue(now) {
			r.report(now)
		}
		if p.due(now, r.SizeBytes) == 0 {
			continue
		}
		if done-waited == window {
			least := done - window + 1
			if r.Test == plan.TestRate {
				least = done
			}
			for ; waited < least; waited++ {
				if err := pending[waited%window].Wait(ctx); err != nil {
					return waited, err
				}
			}
		}
		slot := int(done % window)
		data := memory[slot*r.SizeBytes:][:r.SizeBytes]
		if r.Verify {
			fillPattern(data, r.Sent)
		}
		if pending[slot], err = q.run.Start(ctx, q.ep, tagData, data); err != nil {
			return waited, err
		}
		r.Sent++
		p.offered += float64(r.SizeBytes)
		done++
	}
	for ; waited < done; waited++ {
		if err := pending[waited%window].Wait(ctx); err != nil {
			return waited, err
		}
	}
	return done, nil
}

// sentTotal is the number of messages that a client counts. In a ping-pong, Sent belongs to the
// Runner's goroutine and is left out.
func (q *runnerPort) sentTotal() (c Counts) {
	c.Resent = resentOf(q.run.Stats())
	if q.r.Test != plan.TestLat {
		c.Messages = int64(q.r.Sent)
		c.Bytes = c.Messages * int64(q.r.SizeBytes)
	}
	return c
}

func (q *runnerPort) Counters() Counters { return countersOf(q.run.Stats()) }

// State requests the state from the goroutine that drives the module.
func (q *runnerPort) State() (s State) {
	_ = q.run.Do(context.Background(), func(m *btl.Module) error {
		s = State{Path: newPathRecord(q.ep), Fabric: newAttrRecords(m.Info().Attrs)}
		return nil
	})
	return s
}

func (q *runnerPort) facts() Facts { return q.known }

func (q *runnerPort) close() error {
	ctx, cancel := context.WithTimeout(context.Background(), closeGrace)
	defer cancel()
	return q.run.Close(ctx)
}
