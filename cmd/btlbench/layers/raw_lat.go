package layers

import (
	"time"

	"gobtl/fabric"
	"gobtl/internal/mono"
)

const (
	// rawRetry is the time after which a ping without a reply is sent again.
	rawRetry = 100 * time.Millisecond
	// rawStale is the longest time between two replies to a ping that was sent twice. The second
	// reply must not be mistaken for the reply to the next ping.
	rawStale = 2 * time.Millisecond
)

// latClient measures a ping-pong with one datagram, as fi_pingpong does.
func (p *rawPort) latClient(r *Round) error {
	if _, err := p.pingPong(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	r.Meter.Hist.Reset()
	r.Meter.Lost = 0
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, func() Counts { return Counts{} })
	done, err := p.pingPong(r, newLimit(r.Messages, r.DurationNs, clock()))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	// Each round trip is two messages.
	r.Meter.Messages, r.Meter.Bytes = 2*done, 2*done*int64(r.SizeBytes)
	return err
}

// pingPong is the hot loop of the client, with one reading of the clock per round trip. A round
// trip is recorded while the next one is in progress.
func (p *rawPort) pingPong(r *Round, l limit) (done int64, err error) {
	now := clock()
	last := int64(-1)
	for done < l.messages && now < l.until && !r.over() {
		start := now
		if err := p.ping(r); err != nil {
			return done, err
		}
		if last >= 0 {
			r.record(last)
		}
		if len(p.repost) >= rawBatch/2 {
			if err := p.returnReceives(); err != nil {
				return done, err
			}
		}
		if err := p.awaitReply(r, start); err != nil {
			return done, err
		}
		now = clock()
		last = int64(now - start)
		done++
		p.lookAround()
		if r.reportDue(now) {
			r.report(now)
			now = clock()
		}
		if r.GapNs > 0 {
			if err := p.pause(r); err != nil {
				return done, err
			}
			now = clock()
		}
	}
	if last >= 0 {
		r.record(last)
	}
	return done, nil
}

// pause polls until the next message is due.
func (p *rawPort) pause(r *Round) error {
	return p.waiter.pause(r, func() (bool, error) {
		n, err := p.poll(p.out)
		for i := range p.out[:n] { // of a ping that was sent again
			p.repost = append(p.repost, p.out[i].Buf)
		}
		if err == nil {
			err = p.returnReceives()
		}
		p.lookAround()
		return n > 0, err
	})
}

// ping sends the next message.
func (p *rawPort) ping(r *Round) error {
	buf, err := p.takeFree()
	if err != nil {
		return err
	}
	if r.Verify {
		fillPattern(p.arena.Bytes(buf)[:r.SizeBytes], r.Tally.seen.top)
	}
	return p.send(buf, r.SizeBytes)
}

// awaitReply polls until the reply has arrived, for one completion at a time.
func (p *rawPort) awaitReply(r *Round, start mono.Time) error {
	retryAt := start.Add(rawRetry)
	for {
		n, err := p.poll(p.out[:1])
		if err != nil {
			return err
		}
		if n == 0 {
			if p.waiter.idle() {
				if err := p.noReply(r, start, &retryAt); err != nil {
					return err
				}
			}
			continue
		}
		p.waiter.busy()
		p.repost = append(p.repost, p.out[0].Buf)
		if p.accept(r, &p.out[0]) {
			if retryAt != start.Add(rawRetry) {
				return p.dropStale()
			}
			return nil
		}
	}
}

// dropStale receives and ignores all datagrams for the time rawStale.
func (p *rawPort) dropStale() error {
	for until := clock().Add(rawStale); clock() < until; {
		n, err := p.poll(p.out)
		if err != nil {
			return err
		}
		for i := range p.out[:n] {
			p.repost = append(p.repost, p.out[i].Buf)
		}
		if err := p.returnReceives(); err != nil {
			return err
		}
	}
	return nil
}

// noReply chooses the next action when no reply arrives.
func (p *rawPort) noReply(r *Round, start mono.Time, retryAt *mono.Time) error {
	p.lookAround()
	now := clock()
	switch {
	case r.Halted.Load():
		return ErrHalted
	case now >= r.deadlineFrom(start):
		return errSilent
	case now >= *retryAt:
		r.Meter.Lost++
		*retryAt = now.Add(rawRetry)
		return p.ping(r)
	}
	return nil
}

// accept reports whether a datagram is the expected message, and verifies it. Other datagrams are
// late replies to a ping that was sent again, copies, and damaged datagrams.
func (p *rawPort) accept(r *Round, c *fabric.Completion) bool {
	if c.Errno != 0 || int(c.Len) != r.SizeBytes {
		return false
	}
	if !r.Verify {
		return true
	}
	data := p.arena.Bytes(c.Buf)[:c.Len]
	if stampOf(data, r.Tally.seen.top) < r.Tally.seen.top {
		return false
	}
	r.Tally.Messages++
	r.Tally.check(data, r.SizeBytes)
	return true
}

// latServer returns a datagram for every received datagram.
func (p *rawPort) latServer(r *Round) error {
	watch := startWatch(&p.waiter)
	defer func() { r.Usage = watch.read() }()
	for !r.over() {
		n, err := p.poll(p.out[:1])
		if err != nil {
			return err
		}
		if n == 0 {
			if p.waiter.idle() {
				p.lookAround()
				if err := p.checkClient(clock()); err != nil {
					return err
				}
			}
			continue
		}
		p.waiter.busy()
		if err := p.pong(r, &p.out[0]); err != nil {
			return err
		}
		p.lookAround()
	}
	return nil
}

// pong replies to one ping, and then posts its buffer again.
func (p *rawPort) pong(r *Round, c *fabric.Completion) error {
	if c.Errno == 0 && int(c.Len) == r.SizeBytes {
		p.heard++
		buf, err := p.takeFree()
		if err != nil {
			return err
		}
		r.Tally.Messages++
		r.Tally.Bytes += int64(c.Len)
		if r.Verify {
			data := p.arena.Bytes(c.Buf)[:c.Len]
			n := stampOf(data, r.Tally.seen.top)
			r.Tally.check(data, r.SizeBytes)
			fillPattern(p.arena.Bytes(buf)[:r.SizeBytes], n)
		}
		if err := p.send(buf, r.SizeBytes); err != nil {
			return err
		}
	}
	p.repost = append(p.repost, c.Buf)
	if len(p.repost) >= rawBatch/2 {
		return p.returnReceives()
	}
	return nil
}
