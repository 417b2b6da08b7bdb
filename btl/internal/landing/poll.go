package landing

import (
	"errors"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// ErrSurplus is the error for a provider that reports more completions than operations were posted.
var ErrSurplus = errors.New("more completions than were posted")

// Next begins a poll, and returns the Expectation whose memory shall be the landing of the poll, or
// nil. Parameter bulk is false if the poll must be without a landing. The owner passes the memory
// of x to Poll, or nil if x has none.
func (p *Plan[E]) Next(bulk bool) (x *Expectation[E]) {
	p.mem, p.aim, p.to, p.claimed = nil, nil, Put{}, 0
	p.before, p.learned = p.latest, false
	if p.pause > 0 {
		p.pause--
		bulk = false
	}
	if !bulk || p.next == nil {
		return nil
	}
	if p.aim = p.next.living(); p.aim == nil || !p.aim.open {
		p.next, p.aim = nil, nil
	}
	return p.aim
}

// Poll polls the channel behind a call of Next. Parameter mem is the landing, which the provider is
// told first; nil means none. Poll may ask for fewer completions than limit. If the poll had a
// landing, Landed is true, and the owner calls Done when it has processed the completions.
func (p *Plan[E]) Poll(now mono.Time, limit int, mem []byte) (got int, err error) {
	if err = p.land(mem); err != nil {
		return 0, err
	}
	if p.mem == nil {
		return p.on.Poll(now, limit)
	}
	if p.inOrder() {
		// A poll with a landing is limited to the number of chunks that fit the landing. Later
		// packets, such as the next fragment's first chunk, are left to the next poll, which has a
		// suitable landing.
		chunk := int(p.aim.chunk)
		limit = min(limit, max(1, (len(p.mem)+chunk-1)/chunk))
	}
	if got, err = p.on.PollBehind(0, limit); err != nil {
		return got, err
	}
	p.justWhole = false
	// Completions that the provider has not reported yet may have landed too. The loop polls all
	// remaining completions before any use of the landed memory. Each poll of the loop asks for one
	// completion, because a poll with more room would receive further datagrams. The number of
	// completions is at most the number of posted receives and sends, for which the channel has
	// room.
	for n := got; n == limit; got += n {
		if p.lander.Land(nil, 0) {
			p.armed = false
			p.on.NotePolled(now, got, true)
			return got, nil
		}
		if limit = 1; got == p.on.PollsMost() {
			return got, ErrSurplus
		}
		if n, err = p.on.PollBehind(got, limit); err != nil {
			return got, err
		}
	}
	p.on.NotePolled(now, got, false)
	return got, nil
}

// inOrder says whether the next packets are very probably the expected chunks. inOrder is true on a
// fabric that loses no packets, and for a put in packets of at least AloneBytesMin.
func (p *Plan[E]) inOrder() bool {
	x := p.aim
	return x.counted && x.chunk > 0 || p.to.Flags != 0 && x.chunk >= AloneBytesMin
}

// land tells the provider the landing for the next poll, or that there is none.
func (p *Plan[E]) land(mem []byte) error {
	head := frag.ChunkHeaderBytes
	switch {
	case mem != nil:
		p.mem, p.to, p.base = mem, p.aim.put, p.aim.offset
		head = frag.HeaderBytes(frag.KindChunk, p.to.Flags)
	case p.aim != nil:
		p.next, p.aim = nil, nil
	}
	if p.mem == nil && !p.armed {
		return nil
	}
	if p.lander.Land(p.mem, head) {
		p.armed = p.mem != nil
		return nil
	}
	// The provider refuses a landing while datagrams of an earlier poll without a landing are
	// unreported.
	p.mem, p.aim = nil, nil
	if p.armed {
		return ErrSurplus
	}
	return nil
}

// Landed reports whether the latest poll had a landing.
func (p *Plan[E]) Landed() bool { return p.mem != nil }

// Aim returns the Expectation whose memory is the landing of this poll, and whether the landing is
// the target of a put.
func (p *Plan[E]) Aim() (x *Expectation[E], put bool) { return p.aim, p.to.Flags != 0 }

// Done ends the processing of a poll with a landing.
func (p *Plan[E]) Done() { p.aim = nil }

// Match parses the header of a packet into h, and reports whether the packet is the expected chunk
// and its payload has landed in place. h is valid if Match returns true. The owner must compare
// h.Conn.
func (p *Plan[E]) Match(comp *fabric.Completion, h *frag.Header) bool {
	x := p.aim
	if !x.open || x.put.Flags != p.to.Flags || !p.decode(comp, h) || h.FragID != x.fragID ||
		h.OffsetBytes != p.base+comp.LandedOff {
		return false
	}
	return p.to.Flags == 0 || h.Handle == x.put.Handle && h.Op == x.put.op &&
		h.PutOffset == p.to.At+uint64(comp.LandedOff)
}

// decode parses the header of a chunk whose payload the provider has already written to the
// landing. The receive buffer holds only the header. decode returns false if the packet is not a
// chunk, or if the put and operation flags in the header differ from those of the landing.
func (p *Plan[E]) decode(comp *fabric.Completion, h *frag.Header) bool {
	headBytes := int(comp.Len - comp.Landed)
	if comp.Landed == 0 || comp.Errno != 0 || headBytes > p.arena.Size() {
		return false
	}
	n, err := frag.DecodeSplit(p.arena.Bytes(comp.Buf)[:headBytes], int(comp.Len), h)
	return err == nil && n == headBytes && h.Kind == frag.KindChunk &&
		h.Flags&(frag.FlagPut|frag.FlagOp) == p.to.Flags
}

// Run returns the number of packets in comps that continue the run of chunks whose first packet is
// comps[0] with the header h. The headers in a run of chunks differ only in numbers and offset, and
// the payloads are adjacent. Chunks of such a run need no further checks.
func (p *Plan[E]) Run(h *frag.Header, comps []fabric.Completion) (count int) {
	if len(comps) == 1 {
		return 0
	}
	var next frag.Followers
	next.After(h)
	at, size := comps[0].LandedOff, uint32(h.PayloadLen)
	head := frag.HeaderBytes(h.Kind, h.Flags)
	for i := range comps[1:] {
		comp := &comps[1+i]
		at += size
		if comp.Op != fabric.OpRecv || comp.Errno != 0 || comp.Landed != size ||
			comp.LandedOff != at || comp.Len != size+uint32(head) ||
			!next.Match(p.arena.Bytes(comp.Buf)[:head]) {
			break
		}
		count++
	}
	return count
}

// Accept adds count chunks, whose payloads are in place already, to their message. h is the header
// of the first chunk. Parameter inOrder says that no earlier packet is missing. The result is the
// complete message, or nil.
func (p *Plan[E]) Accept(h *frag.Header, count int, inOrder bool) (*frag.Message, error) {
	x := p.aim
	if !x.begins {
		return x.asm.AddLanded(h, int(h.PayloadLen), count-1)
	}
	msg, err := x.asm.BeginLanded(h, int(h.PayloadLen), count-1, inOrder, p.mem)
	x.begins = err != nil
	return msg, err
}

// Claim reports whether the payload of a put's chunk stands where it belongs: at the beginning of
// target, which has the size of the chunk and those behind it. These bytes are then not zeroed by
// Restore.
func (p *Plan[E]) Claim(comp *fabric.Completion, target []byte) bool {
	if len(target) == 0 || &target[0] != &p.mem[comp.LandedOff] {
		return false
	}
	p.claimed += uint32(len(target))
	return true
}

// Restore copies landed payloads back into the receive buffers of their packets, behind the
// headers. If the landing was for the first chunk of an expected fragment, that expectation ends,
// so that later packets can be received fast again.
func (p *Plan[E]) Restore(comps []fabric.Completion) {
	guess := p.aim.begins
	if guess && len(comps) > 0 {
		p.expectNothing(p.aim)
	}
	missed := false
	for i := range comps {
		comp := &comps[i]
		if comp.Landed == 0 || comp.Op != fabric.OpRecv {
			continue
		}
		missed = true
		landed := comp.Landed
		comp.Landed = 0
		if b := p.arena.Bytes(comp.Buf); int(comp.Len) <= len(b) { // longer: dropped
			copy(b[comp.Len-landed:comp.Len], p.mem[comp.LandedOff:])
		}
	}
	p.scrub(comps)
	if missed && !guess {
		p.pause = PausePolls
		if p.aim.missed++; p.aim.missed >= MissedMax {
			p.expectNothing(p.aim)
		}
	}
}

// scrub zeroes the bytes that packets other than the expected put have written to a region's
// landing. These packets are in comps. The provider has written at most as many bytes as the
// packets in comps have together. The bytes of the put that belong into the zeroed memory arrive
// later.
func (p *Plan[E]) scrub(comps []fabric.Completion) {
	if p.to.Flags == 0 {
		return
	}
	var arrived uint64
	for i := range comps {
		if comps[i].Op == fabric.OpRecv {
			arrived += uint64(comps[i].Len)
		}
	}
	rest := p.mem[p.claimed:]
	clear(rest[:min(uint64(len(rest)), arrived)])
	p.claimed = uint32(len(p.mem)) // a handler may end the region now
}
