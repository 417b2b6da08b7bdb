package layers

import (
	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// flow is the state of a round's messages, sending and receiving.
type flow struct {
	received   uint64
	gotReply   bool
	repliesDue int
	notes      []noteDue
	settled    uint64 // of this side's messages so many have certainly arrived (farAhead)

	phase    uint64 // the client's: 1 warm-up, 2 what is measured
	goPhase  uint64 // the latest phase that the peer has begun
	finPhase uint64 // the latest phase that the peer has ended,
	finSent  uint64 // and how many messages it had sent by then
	finOwed  bool   // the end of a phase is still to be confirmed
	finDone  bool   // this side's own fin of goPhase was sent
	seen     uint64 // of this side's messages the peer has seen so many

	pace pace // of what this side sends

	// In the test rate, windowFrom is the sent count at which the window began, and windowAt is the
	// received count at which the window is complete.
	windowFrom, windowAt uint64
}

// streamClient measures a flow of messages, from the first one sent until the server confirms that
// it has received all of them.
func (p *btlPort) streamClient(r *Round) error {
	if err := p.streamPhase(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	sent, received, bytes := r.Sent, p.received, r.Tally.Bytes
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, p.sentTotal)
	err := p.streamPhase(r, newLimit(r.Messages, r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	r.Meter.Messages = int64(r.Sent - sent + p.received - received)
	r.Meter.Bytes = int64(r.Sent-sent)*int64(r.SizeBytes) + r.Tally.Bytes - bytes
	return err
}

// sentTotal is the number of sent messages and of messages received from the server.
func (p *btlPort) sentTotal() Counts {
	return Counts{
		Messages: int64(p.r.Sent + p.received),
		Bytes:    int64(p.r.Sent)*int64(p.r.SizeBytes) + p.r.Tally.Bytes,
		Resent:   resentOf(p.m.Stats()),
	}
}

// streamPhase sends until the limit, and then waits until everything has arrived, in bibw on both
// sides.
func (p *btlPort) streamPhase(r *Round, l limit) error {
	p.phase++
	if plan.ServerSends(r.Test) {
		if err := p.tell(tagGo, p.phase, 0); err != nil {
			return err
		}
	}
	now := clock()
	p.windowFrom = r.Sent
	p.pace.start(r.BytesPerNs, now)
	counted := &r.Sent // what the limit is for
	if r.Test == plan.TestReverse {
		counted = &p.received
	}
	for begin := *counted; now < l.until && !r.over(); {
		most := l.messages - int64(*counted-begin)
		if most <= 0 {
			break
		}
		var err error
		if now, err = p.streamPass(r, most, now, l.until); err != nil {
			return err
		}
		if r.reportDue(now) {
			r.report(now)
		}
	}
	if err := p.tell(tagFin, p.phase, r.Sent); err != nil {
		return err
	}
	for p.seen < r.Sent || plan.ServerSends(r.Test) && !p.peerFinished() {
		n, err := p.m.Progress(now)
		if err == nil {
			err = p.serveDue(r)
		}
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return err
		}
		now = clock()
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() && p.stuck(now) {
			return errStuck
		}
	}
	return nil
}

// peerFinished reports whether the peer has ended the phase and all its messages have arrived.
func (p *btlPort) peerFinished() bool {
	return p.finPhase == p.phase && p.received >= p.finSent
}

// streamPass sends as many messages as there is room for, and then calls Progress once. A call of
// streamPass that finds nothing to do waits, at most until the instant that is the argument until.
func (p *btlPort) streamPass(r *Round, most int64, now, until mono.Time) (mono.Time, error) {
	sent := r.Sent
	room := int64(r.Window - p.inFlight)
	if r.Test == plan.TestRate {
		// In the test rate, a whole window is in flight until the peer has received it.
		if r.Sent == p.windowFrom+uint64(r.Window) && p.seen >= r.Sent {
			p.windowFrom = r.Sent
		}
		room = int64(p.windowFrom + uint64(r.Window) - r.Sent)
	}
	if r.Test == plan.TestReverse {
		room = 0
	}
	if err := p.sendSome(r, min(room, most), now); err != nil {
		return now, err
	}
	n, err := p.m.Progress(now)
	if err != nil {
		return now, err
	}
	if err := p.serveDue(r); err != nil {
		return now, err
	}
	if n > 0 || r.Sent != sent {
		p.waiter.busy()
	} else {
		p.waiter.until = p.pace.next(until)
		looks := p.waiter.idle()
		p.waiter.until = mono.Never
		// If a sender has a rate, or a peer that lives and receives nothing, the sender may have to wait
		// for long.
		if looks && r.Test == plan.TestReverse && p.stuck(clock()) {
			return clock(), errStuck
		}
	}
	return clock(), p.check()
}

// sendSome sends up to the given number of messages, as far as there is room and the rate permits.
func (p *btlPort) sendSome(r *Round, most int64, now mono.Time) error {
	for n := min(most, p.pace.due(now, r.SizeBytes)); n > 0; n-- {
		sent, err := p.tryMessage(r, r.Sent)
		if err != nil || !sent {
			return err
		}
		r.Sent++
		p.pace.offered += float64(r.SizeBytes)
	}
	return nil
}

// serveDue does the work that handlers have left, which is to send messages that found no room, and
// the stream of a server that has one.
func (p *btlPort) serveDue(r *Round) error {
	if p.repliesDue > 0 {
		if err := p.sendReplies(r); err != nil {
			return err
		}
	}
	if len(p.notes) > 0 {
		notes := p.notes
		p.notes = nil
		for _, n := range notes {
			if err := p.tell(n.tag, n.a, n.b); err != nil {
				return err
			}
		}
	}
	if r.Server && plan.ServerSends(r.Test) && p.goPhase > 0 && !p.finDone {
		return p.serveStream(r)
	}
	return nil
}

// serveStream is the sending half of the server, which sends from the client's message go to the
// client's message fin.
func (p *btlPort) serveStream(r *Round) error {
	if p.finPhase < p.goPhase {
		return p.sendSome(r, int64(r.Window-p.inFlight), p.ep.Now())
	}
	p.finDone = true
	return p.tell(tagFin, p.goPhase, r.Sent)
}

// onStreamData counts a message, and tells the peer when it completes what the peer waits for.
func (p *btlPort) onStreamData(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	p.note(data)
	if p.r.Test == plan.TestRate && p.received >= p.windowAt {
		p.windowAt += uint64(p.r.Window)
		p.tellOrFail(tagWindow, p.received)
	}
	if p.finOwed {
		p.confirmFin()
	}
}

// tellOrFail works like tell within a handler, and stores an error for the next check.
func (p *btlPort) tellOrFail(tag btl.Tag, a uint64) {
	if err := p.tell(tag, a, 0); err != nil && p.sendErr == nil {
		p.sendErr = err
	}
}

func (p *btlPort) onGo(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	phase, _, ok := p.readNote(data)
	if ok && phase > p.goPhase && phase > p.finPhase {
		p.goPhase, p.finDone = phase, false
		p.pace.start(p.r.BytesPerNs, p.ep.Now())
	}
}

func (p *btlPort) onFin(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	phase, sent, ok := p.readNote(data)
	if !ok || phase <= p.finPhase {
		return
	}
	// If the message go arrives after its message fin, no stream starts, but the peer waits for this
	// side's fin.
	if p.r.Server {
		p.goPhase, p.finDone = phase, false
	}
	p.finPhase, p.finSent, p.finOwed = phase, sent, true
	p.confirmFin()
}

// confirmFin tells the peer when everything has arrived.
func (p *btlPort) confirmFin() {
	if p.received < p.finSent {
		return
	}
	p.finOwed = false
	p.windowAt = p.finSent + uint64(p.r.Window)
	p.tellOrFail(tagFinSeen, p.received)
}

func (p *btlPort) onFinSeen(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	if received, _, ok := p.readNote(data); ok {
		p.seen = max(p.seen, received)
	}
}

// onWindow handles the number of received messages, like onFinSeen.
func (p *btlPort) onWindow(ep *btl.Endpoint, tag btl.Tag, data []byte) {
	p.onFinSeen(ep, tag, data)
}
