package layers

import (
	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// latClient plays ping-pong: with messages in lat, with puts into each other's memory in put_lat
// and notice; or asks one question after the other.
func (p *btlPort) latClient(r *Round) error {
	play := p.pingPong
	switch r.Test {
	case plan.TestPutLat:
		play = p.putPingPong
	case plan.TestGetLat, plan.TestAtomicLat:
		play = p.ask
	}
	if _, err := play(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	r.Meter.Hist.Reset()
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, p.resentOnly)
	done, err := play(r, newLimit(r.Messages, r.DurationNs, clock()))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	if err == nil {
		err = p.checkSum(r)
	}
	// Each round trip is two messages.
	r.Meter.Messages, r.Meter.Bytes = 2*done, 2*done*int64(r.SizeBytes)
	return err
}

// passesPerClock is how many passes in vain share a reading of the clock: a pass over memory costs
// hardly more than a reading does.
const passesPerClock = 4

// pingPong is the client's hot loop. As in the raw layer a round trip begins where the one before
// it ended, and is recorded while the next is under way. The clock is read for every pass that has
// brought something, and for every few of the others; the reading that ends a round trip is taken
// after the pass that brought the reply.
func (p *btlPort) pingPong(r *Round, l limit) (done int64, err error) {
	now := clock()
	last := int64(-1)
	for done < l.messages && now < l.until && !r.over() {
		start := now
		p.gotReply = false
		if err := p.sendPing(r); err != nil {
			return done, err
		}
		if last >= 0 {
			r.record(last)
		}
		for empty := uint(0); !p.gotReply; {
			n, err := p.m.Progress(now)
			if err == nil {
				err = p.check()
			}
			if err == nil && p.stream.on {
				err = p.feed(r, now)
			}
			if err != nil {
				return done, err
			}
			if empty++; n > 0 || empty%passesPerClock == 0 {
				now = clock()
			}
			if n > 0 {
				p.waiter.busy()
			} else if p.waiter.idle() {
				if now = clock(); p.stuck(now) {
					return done, errStuck
				}
			}
		}
		last = int64(now - start)
		done++
		if now, err = p.between(r, now); err != nil {
			return done, err
		}
	}
	if last >= 0 {
		r.record(last)
	}
	return done, nil
}

// between does what there is to be done between two round trips, none of which counts, and returns
// the instant at which the next one may begin.
func (p *btlPort) between(r *Round, now mono.Time) (mono.Time, error) {
	if r.reportDue(now) {
		r.report(now)
		now = clock()
	}
	if r.GapNs == 0 {
		return now, nil
	}
	err := p.pause(r)
	return clock(), err
}

// resentOnly is what a test of latency counts beside its histogram.
func (p *btlPort) resentOnly() Counts { return Counts{Resent: resentOf(p.m.Stats())} }

// pause makes progress until the next message is due. It ends with a pass: the message is stamped
// with the instant of the latest one, which must not be from before a sleep.
func (p *btlPort) pause(r *Round) error {
	pass := func() (bool, error) {
		n, err := p.m.Progress(clock())
		if err == nil {
			err = p.check()
		}
		return n > 0, err
	}
	err := p.waiter.pause(r, pass)
	if err == nil {
		_, err = pass()
	}
	return err
}

// sendPing sends the next message, whatever that takes.
func (p *btlPort) sendPing(r *Round) error {
	for {
		sent, err := p.tryMessage(r, r.Sent)
		if err != nil {
			return err
		}
		if sent {
			r.Sent++
			return nil
		}
		if err := p.pass(clock()); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
}

// tryMessage sends message n, if there is room for it.
func (p *btlPort) tryMessage(r *Round, n uint64) (bool, error) {
	if r.Verify && r.SizeBytes == 1 && p.farAhead(n) {
		return false, nil
	}
	slot, ok := p.take()
	if !ok {
		return false, nil
	}
	if r.Verify {
		fillPattern(p.slot(slot), n)
	}
	if r.Test == plan.TestNotice {
		return p.tryNotice(r, slot)
	}
	return p.messages.send(p.ep, tagData, slot)
}

// farAhead says that before message n as many may be on their way as their stamps of one byte can
// tell apart. A packet may hold many of them, so they are counted from when nothing was on its way.
func (p *btlPort) farAhead(n uint64) bool {
	if packets, fragments := p.ep.Outstanding(); packets+fragments == 0 {
		p.settled = n
	}
	return n-p.settled >= 64
}

// onPong takes the reply to a ping.
func (p *btlPort) onPong(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	p.note(data)
	p.gotReply = true
}

// note counts a message that arrived, and verifies it.
func (p *btlPort) note(data []byte) {
	r := p.r
	p.received++
	r.Tally.Messages++
	r.Tally.Bytes += int64(len(data))
	if r.Verify {
		r.Tally.check(data, r.SizeBytes)
	}
}

// onPing answers a ping from inside the handler, because that is fast. Each answer has a number of
// its own, as each ping has: they are the same as long as none is lost.
func (p *btlPort) onPing(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	p.note(data)
	p.repliesDue++
	_ = p.sendReplies(p.r) // An error will come again where it can be returned.
}

// sendReplies sends the replies that are due.
func (p *btlPort) sendReplies(r *Round) error {
	for p.repliesDue > 0 {
		sent, err := p.tryMessage(r, r.Sent)
		if err != nil || !sent {
			return err
		}
		r.Sent++
		p.repliesDue--
	}
	return nil
}
