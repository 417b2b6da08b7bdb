package layers

import (
	"fmt"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// asking is the state of a round whose client sends requests for the server's memory (gets and
// atomic operations).
type asking struct {
	asked     int64  // so many times, in this round
	answered  bool   // the latest time
	fetched   uint64 // by the latest operation that fetches
	askDoneFn func(*btl.Fragment, error)
}

// tryNotice sends a message as a put with a notice.
func (p *btlPort) tryNotice(r *Round, slot uint32) (bool, error) {
	f, err := p.ep.PreparePutNotice(p.slot(slot), btl.Handle(r.Handle), 0, tagNotice, nil)
	if err != nil {
		p.messages.free = append(p.messages.free, slot)
		return false, again(err)
	}
	f.Context, f.OnDone = uint64(slot), p.doneFn
	return p.messages.give(p.ep, f, slot)
}

// onNotice handles a put of the peer, whose bytes have all arrived, and sends or records the reply.
func (p *btlPort) onNotice(*btl.Endpoint, btl.Tag, []byte) {
	if !p.paid() {
		return
	}
	p.note(p.place)
	if p.r.Server {
		p.repliesDue++
		_ = p.sendReplies(p.r) // An error will come again where it can be returned.
	}
	p.gotReply = true
}

// tryAsk sends the next request of the round, if there is room for it.
func (p *btlPort) tryAsk(r *Round) (bool, error) {
	slot, ok := p.take()
	if !ok {
		return false, nil
	}
	var f *btl.Fragment
	var err error
	if plan.IsAtomic(r.Test) {
		f, err = p.ep.PrepareAtomic(btl.Atomic{
			Target: btl.Handle(r.Handle), Action: btl.ActionAdd, WidthBytes: plan.AtomicBytes, Operand: 1,
			Fetch: r.Test != plan.TestAtomicPost,
		})
	} else {
		if r.Verify {
			clear(p.slot(slot))
		}
		f, err = p.ep.PrepareGet(p.slot(r.Place(slot)), btl.Handle(r.Handle), 0)
	}
	if err != nil {
		p.messages.free = append(p.messages.free, slot)
		return false, again(err)
	}
	f.Context, f.OnDone, f.Signal = uint64(slot), p.askDoneFn, true
	sent, err := p.messages.give(p.ep, f, slot)
	if sent {
		p.asked++
		p.answered = false
	}
	return sent, err
}

// onAskDone handles the result of a request.
func (p *btlPort) onAskDone(f *btl.Fragment, err error) {
	p.answered = true
	p.fetched = f.Value()
	if r := p.r; err == nil && !plan.IsAtomic(r.Test) {
		b := p.slot(uint32(f.Context))
		r.Tally.Messages++
		r.Tally.Bytes += int64(len(b))
		if r.Verify {
			wrong := corruptBytes(b, 0)
			r.Tally.CorruptBytes += wrong
			r.Tally.VerifiedBytes += int64(len(b)) - wrong
		}
	}
	p.onDone(f, err)
}

// ask sends one request after the other, each after the answer to the previous one.
func (p *btlPort) ask(r *Round, l limit) (done int64, err error) {
	now := clock()
	for done < l.messages && now < l.until && !r.over() {
		start := now
		if _, err := p.tryAsk(r); err != nil {
			return done, err
		}
		for empty := uint(0); !p.answered; {
			n, err := p.m.Progress(now)
			if err == nil {
				err = p.check()
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
		r.record(int64(now - start))
		done++
		if r.reportDue(now) {
			r.report(now)
			now = clock()
		}
	}
	return done, p.check()
}

// askClient measures a flow of requests until the last one is answered.
func (p *btlPort) askClient(r *Round) error {
	if err := p.askPhase(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	asked := p.asked
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, p.askedTotal)
	err := p.askPhase(r, newLimit(r.Messages, r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	r.Meter.Messages = p.asked - asked
	r.Meter.Bytes = r.Meter.Messages * int64(r.SizeBytes)
	if err != nil {
		return err
	}
	return p.checkSum(r)
}

// askPhase sends requests until the limit, and then waits for all answers.
func (p *btlPort) askPhase(r *Round, l limit) error {
	now := clock()
	for begin := p.asked; ; {
		over := now >= l.until || r.over() || p.asked-begin >= l.messages
		if over && p.inFlight == 0 {
			return p.check()
		}
		for n := min(l.messages-(p.asked-begin), int64(r.Window)); n > 0 && !over; n-- {
			sent, err := p.tryAsk(r)
			if err != nil {
				return err
			}
			if !sent {
				break
			}
		}
		n, err := p.m.Progress(now)
		if err == nil {
			err = p.check()
		}
		if err != nil {
			return err
		}
		now = clock()
		if r.reportDue(now) {
			r.report(now)
		}
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() && p.stuck(now) {
			return errStuck
		}
	}
}

// askedTotal is the total number of requests and bytes of a flow of requests.
func (p *btlPort) askedTotal() Counts {
	return Counts{p.asked, p.asked * int64(p.r.SizeBytes), resentOf(p.m.Stats())}
}

// checkSum checks that the peer's number, to which each operation has added one, equals the number
// of operations.
func (p *btlPort) checkSum(r *Round) error {
	if !plan.IsAtomic(r.Test) || r.over() {
		return nil
	}
	want := uint64(p.asked)
	f, err := p.ep.PrepareAtomic(btl.Atomic{
		Target: btl.Handle(r.Handle), Action: btl.ActionRead, WidthBytes: plan.AtomicBytes,
	})
	if err != nil {
		return err
	}
	slot, _ := p.take() // all are answered
	f.Context, f.OnDone, f.Signal = uint64(slot), p.askDoneFn, true
	p.answered = false
	if _, err := p.messages.give(p.ep, f, slot); err != nil {
		return err
	}
	for !p.answered {
		if err := p.pass(clock()); err != nil {
			return err
		}
	}
	if err := p.check(); err != nil {
		return err
	}
	if p.fetched != want {
		return fmt.Errorf("%d operations have added %d to the peer's number", want, p.fetched)
	}
	r.Tally.Messages += p.asked
	r.Tally.Bytes += p.asked * plan.AtomicBytes
	if r.Verify {
		r.Tally.VerifiedBytes += p.asked * plan.AtomicBytes
	}
	return nil
}
