package layers

import (
	"cmp"
	"errors"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// puts is the state of a round of puts, with the memory that the peer writes and the checks of its
// content.
type puts struct {
	region    *btl.Region
	place     []byte // the region's memory
	numbers   []uint64
	unseen    []bool // slots whose puts are complete, and not seen by the peer
	putDoneFn func(*btl.Fragment, error)
}

// exposeFor exposes zeroed memory for a round of puts, which holds one message in put_lat and a
// window of messages in put_bw. The memory of an earlier round is no longer exposed.
func (p *btlPort) exposeFor(r *Round) (uint64, error) {
	p.unseen = nil
	if p.region != nil {
		p.region.Close()
		p.region = nil
	}
	rights, exposes := rightsFor(r)
	if !exposes {
		return 0, nil
	}
	sizeBytes := placeBytes(r)
	if cap(p.place) < sizeBytes {
		p.place = make([]byte, sizeBytes)
	}
	p.place = p.place[:sizeBytes]
	clear(p.place)
	if rights == btl.RemoteRead {
		fillPattern(p.place, 0)
	}
	var err error
	if p.region, err = p.m.Expose(p.place, rights); err != nil {
		return 0, err
	}
	return uint64(p.region.Handle()), nil
}

// placeBytes is the size of the memory that a side exposes in a round.
func placeBytes(r *Round) int {
	switch _, exposes := rightsFor(r); {
	case !exposes:
		return 0
	case r.Test == plan.TestPutBW:
		return r.SizeBytes * r.Window
	}
	return r.SizeBytes
}

// rightsFor returns whether a side exposes memory in a round, and the access rights of the peer.
func rightsFor(r *Round) (rights btl.Rights, exposes bool) {
	switch {
	case r.Test == plan.TestPutLat:
		return btl.RemoteWrite, true
	case r.Test == plan.TestNotice:
		return btl.RemoteWrite | btl.RemoteNotify, true
	case !r.Server:
		return 0, false
	case r.Test == plan.TestPutBW:
		return btl.RemoteWrite, true
	case r.Test == plan.TestGetLat || r.Test == plan.TestGetBW:
		return btl.RemoteRead, true
	}
	return btl.RemoteAtomic, plan.IsAtomic(r.Test)
}

// tryPut puts message n from a slot of this side to the position place of the peer's memory.
func (p *btlPort) tryPut(r *Round, slot uint32, offset uint64, tracked bool) (bool, error) {
	f, err := p.ep.PreparePut(p.slot(slot), btl.Handle(r.Handle), offset)
	if err != nil {
		p.messages.free = append(p.messages.free, slot)
		return false, again(err)
	}
	f.Context, f.OnDone = uint64(slot), p.doneFn
	if tracked {
		f.Signal, f.OnDone = true, p.putDoneFn
	}
	return p.messages.give(p.ep, f, slot)
}

// putPingPong works like pingPong, but with puts, where each side waits for the last byte of its
// memory to change, as in ucx_perftest. Packets of a large put may be written in any order, and
// therefore with --verify a message has arrived when as many bytes were written as it has.
func (p *btlPort) putPingPong(r *Round, l limit) (done int64, err error) {
	now := clock()
	last := int64(-1)
	for done < l.messages && now < l.until && !r.over() {
		start := now
		if err := p.sendPut(r); err != nil {
			return done, err
		}
		if last >= 0 {
			r.record(last)
		}
		if now, err = p.awaitPut(r, start); err != nil {
			return done, err
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

// sendPut puts the next message, and waits until that is possible. If the server is stopped,
// sendPut returns without a put.
func (p *btlPort) sendPut(r *Round) error {
	for !r.Server || !r.Stopped.Load() {
		if slot, ok := p.take(); ok {
			p.fillPut(r, p.slot(slot), r.Sent)
			sent, err := p.tryPut(r, slot, 0, false)
			if err != nil {
				return err
			}
			if sent {
				r.Sent++
				return nil
			}
		}
		if err := p.pass(clock()); err != nil {
			return err
		}
		if err := p.check(); err != nil {
			return err
		}
	}
	return nil
}

// Puts are numbered from 1 in their contents, so that unwritten memory is not mistaken for a put.

// fillPut writes the content of put n, which is all its bytes with --verify, and otherwise a last
// byte that differs from the previous put.
func (p *btlPort) fillPut(r *Round, b []byte, n uint64) {
	if r.Verify {
		fillPattern(b, n+1)
	} else {
		b[len(b)-1] = byte(n + 1)
	}
}

// putHere reports whether put n is in this side's memory, by its last byte, and with --verify by
// the number of bytes that puts have written. A comparison of all bytes in each pass would be much
// work for a peer that writes a single byte.
func (p *btlPort) putHere(r *Round, n uint64) bool {
	if r.Verify {
		return p.region.Written() >= (n+1)*uint64(len(p.place))
	}
	return p.place[len(p.place)-1] == byte(n+1)
}

// awaitPut polls this side's memory until the next put has arrived, and returns the time. If the
// server is stopped, awaitPut returns without a put.
func (p *btlPort) awaitPut(r *Round, start mono.Time) (mono.Time, error) {
	now := start
	for !p.putHere(r, p.received) {
		n, err := p.m.Progress(now)
		if err == nil {
			err = p.check()
		}
		if err != nil || r.Server && r.Stopped.Load() {
			return now, err
		}
		now = clock()
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() && p.stuck(now) {
			return now, errStuck
		}
	}
	r.Tally.Messages++
	r.Tally.Bytes += int64(r.SizeBytes)
	if r.Verify {
		p.verifyPut(r, p.place, p.received)
	}
	p.received++
	return now, nil
}

// verifyPut verifies the bytes of put n.
func (p *btlPort) verifyPut(r *Round, b []byte, n uint64) {
	wrong := corruptBytes(b, n+1)
	r.Tally.CorruptBytes += wrong
	r.Tally.VerifiedBytes += int64(len(b)) - wrong
	if !r.Tally.seen.mark(n) {
		r.Tally.Duplicates++
	}
}

// putLatServer replies to each put with a put.
func (p *btlPort) putLatServer(r *Round) error {
	for now := clock(); !r.over(); {
		var err error
		if now, err = p.awaitPut(r, now); err != nil {
			return err
		}
		if p.received > r.Sent {
			if err := p.sendPut(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// putClient measures a flow of puts until the last one is acknowledged, which means that its bytes
// were written.
func (p *btlPort) putClient(r *Round) error {
	p.numbers, p.unseen = make([]uint64, r.Window), make([]bool, r.Window)
	if err := p.putPhase(r, newLimit(r.WarmupMessages, r.WarmupNs, clock())); err != nil {
		return err
	}
	sent := r.Sent
	watch, begin := startWatch(&p.waiter), clock()
	r.beginReports(begin, p.sentTotal)
	err := p.putPhase(r, newLimit(r.Messages, r.DurationNs, begin))
	r.Meter.Elapsed = clock().Sub(begin)
	r.endReports(begin.Add(r.Meter.Elapsed))
	r.Usage = watch.read()
	r.Meter.Messages = int64(r.Sent - sent)
	r.Meter.Bytes = r.Meter.Messages * int64(r.SizeBytes)
	return err
}

// putPhase starts puts until the limit, and then waits until all puts are complete, and with
// --verify verified.
func (p *btlPort) putPhase(r *Round, l limit) error {
	now := clock()
	for begin := r.Sent; now < l.until && !r.over() && int64(r.Sent-begin) < l.messages; {
		if err := p.putSome(r, l.messages-int64(r.Sent-begin)); err != nil {
			return err
		}
		if _, err := p.putPass(r, now); err != nil {
			return err
		}
		now = clock()
		if r.reportDue(now) {
			r.report(now)
		}
	}
	flushed := false
	p.ep.Flush(clock(), func(error) { flushed = true }) // An error has ended the connection as well.
	for !flushed || len(p.messages.free) < r.Window {
		now := clock()
		n, err := p.putPass(r, now)
		if err != nil {
			return err
		}
		if n > 0 {
			p.waiter.busy()
		} else if p.waiter.idle() && p.stuck(now) {
			return errStuck
		}
	}
	return nil
}

// putPass calls Progress once, and returns the number of received packets.
func (p *btlPort) putPass(r *Round, now mono.Time) (int, error) {
	n, err := p.m.Progress(now)
	if err == nil {
		err = p.serveDue(r)
	}
	if err == nil {
		err = p.check()
	}
	return n, err
}

// putSome starts as many puts as there is room for.
func (p *btlPort) putSome(r *Round, most int64) error {
	for n := min(most, int64(r.Window)); n > 0; n-- {
		slot, ok := p.take()
		if !ok {
			return nil
		}
		if r.Verify {
			p.fillPut(r, p.slot(slot), r.Sent)
			p.numbers[slot] = r.Sent
		}
		offset := uint64(r.Place(slot)) * uint64(r.SizeBytes)
		sent, err := p.tryPut(r, slot, offset, r.Verify)
		if err != nil || !sent {
			return err
		}
		r.Sent++
	}
	return nil
}

// onPutDone tells the peer that a put is complete, so that the peer verifies it. The slot stays in
// use until the peer has verified the put.
func (p *btlPort) onPutDone(f *btl.Fragment, err error) {
	p.inFlight--
	slot := f.Context
	if err == nil {
		p.unseen[slot] = true
		err = p.tell(tagPut, p.numbers[slot], slot)
	}
	if err != nil && p.sendErr == nil {
		p.sendErr = err
	}
}

// errUnpaid means that the peer reports more puts than it has made.
var errUnpaid = errors.New("the peer reports puts that it has not made")

// paid reports whether the peer has written the bytes of one more put than this side has counted. A
// side that verifies puts which nobody has made would do much work for a short message. The result
// of paid is also false if the round is halted, so that a pass ends after the put that it verifies.
func (p *btlPort) paid() bool {
	if p.region == nil || p.r.Halted.Load() {
		return false
	}
	if (p.received+1)*uint64(p.r.SizeBytes) > p.region.Written() {
		p.sendErr = cmp.Or(p.sendErr, errUnpaid)
		return false
	}
	return true
}

// onPut verifies a received put.
func (p *btlPort) onPut(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	r := p.r
	n, slot, ok := p.readNote(data)
	if !ok || slot >= uint64(r.Window) || !p.paid() {
		return
	}
	p.received++
	r.Tally.Messages++
	r.Tally.Bytes += int64(r.SizeBytes)
	p.verifyPut(r, p.place[int(slot)*r.SizeBytes:][:r.SizeBytes], n)
	p.tellOrFail(tagPutSeen, slot)
}

// onPutSeen frees the slot of a put that the peer has verified.
func (p *btlPort) onPutSeen(_ *btl.Endpoint, _ btl.Tag, data []byte) {
	slot, _, ok := p.readNote(data)
	if ok && slot < uint64(len(p.unseen)) && p.unseen[slot] {
		p.unseen[slot] = false
		p.messages.free = append(p.messages.free, uint32(slot))
	}
}
