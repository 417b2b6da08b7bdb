package layers

import (
	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// latClient measures ping-pongs of messages (lat) or of puts (put_lat and notice), or requests one
// after the other.
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
	// Each round trip of a latency test is two messages.
	r.Meter.Messages, r.Meter.Bytes = 2*done, 2*done*int64(r.SizeBytes)
	return err
}

// passesPerClock is the number of empty polls per reading of the clock, because an empty poll of
// memory costs hardly more than a reading.
const passesPerClock = 4

// The method pingPong is the hot loop of the client of a latency test. A round trip of pingPong
// begins at the end of the previous one, and is recorded while the next one is in progress, as in
// the raw layer. The client's hot loop reads the clock after each poll that has received something,
// and after every few empty polls.
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

// The method between does the work between two round trips, which does not count, and returns the
// time at which the next round trip may begin.
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

// resentOnly counts the retransmissions of a latency test, beside its histogram.
func (p *btlPort) resentOnly() Counts { return Counts{Resent: resentOf(p.m.Stats())} }

// pause polls until the next message is due. The last action of pause is a poll, because the
// message gets the time of the latest poll as its time stamp.
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

// sendPing sends the next message, and waits until that is possible.
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

// farAhead reports whether so many messages may be in flight before message n that their stamps of
// one byte could be confused.
func (p *btlPort) farAhead(n uint64) bool {
	if packets, fragments := p.ep.Outstanding(); packets+fragments == 0 {
		p.settled = n
	}
	return n-p.settled >= 64
}

// onPong handles the reply to a ping.
func (p *btlPort) onPong(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	p.note(data)
	p.gotReply = true
}

// note counts a received message, and verifies it.
func (p *btlPort) note(data []byte) {
	r := p.r
	p.received++
	r.Tally.Messages++
	r.Tally.Bytes += int64(len(data))
	if r.Verify {
		r.Tally.check(data, r.SizeBytes)
	}
}

// onPing sends the reply to a ping from inside the handler, because that is fast. Replies are
// numbered like pings, and a ping and its reply have the same number as long as no message is lost.
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
