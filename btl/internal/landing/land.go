package landing

import (
	"errors"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// ErrSurplus means that a provider has reported more completions than operations were posted.
var ErrSurplus = errors.New("more completions than were posted")

// Next begins a poll, and returns the Expectation whose memory should be used for direct receive in
// this poll. Next returns nil if the poll uses no direct receive. The argument "bulk" of Next says
// whether the poll is allowed to use direct receive. After Next, the caller must call Poll with the
// memory of the returned Expectation, or with nil.
func (p *Plan[E]) Next(bulk bool) (x *Expectation[E]) {
	p.Memory, p.aim, p.to, p.claimed = nil, nil, Put{}, 0
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

// Poll polls the channel after a call of Next. The argument "mem" of Poll is the memory for direct
// receive, or nil for a poll without direct receive. Poll can return fewer completions than the
// argument "limit" allows, even if more completions are available. If the poll used direct receive,
// the field Memory is set, and the caller must call Done after it has processed the completions.
func (p *Plan[E]) Poll(now mono.Time, limit int, mem []byte) (got int, err error) {
	if err = p.land(mem); err != nil {
		return 0, err
	}
	if p.Memory == nil {
		return p.Channel.Poll(now, limit)
	}
	if p.inOrder() {
		// A poll with direct receive asks for at most one packet for each chunk that fits into the memory
		// for direct receive.
		chunk := int(p.aim.chunk)
		limit = min(limit, max(1, (len(p.Memory)+chunk-1)/chunk))
	}
	if got, err = p.Channel.PollBehind(0, limit); err != nil {
		return got, err
	}
	p.justWhole = false
	// The memory for direct receive can contain payloads of packets that the provider has not reported
	// yet. The loop below polls all remaining completions before the module uses the memory for direct
	// receive.
	for n := got; n == limit; got += n {
		if p.lander.Land(nil, 0) {
			p.Armed = false
			p.Channel.NotePolled(now, got, true)
			return got, nil
		}
		if limit = 1; got == p.Channel.PollsMost() {
			return got, ErrSurplus
		}
		if n, err = p.Channel.PollBehind(got, limit); err != nil {
			return got, err
		}
	}
	p.Channel.NotePolled(now, got, false)
	return got, nil
}

// inOrder reports whether the next packets are almost certainly the expected chunks. inOrder
// returns true for chunks over a reliable fabric, and for chunks of a put whose packets have at
// least OneByOneBytesMin bytes.
func (p *Plan[E]) inOrder() bool {
	x := p.aim
	return x.counted && x.chunk > 0 || p.to.Flags != 0 && x.chunk >= OneByOneBytesMin
}

// land gives the provider the memory for direct receive in the next poll, or withdraws the memory
// that was given for a previous poll.
func (p *Plan[E]) land(mem []byte) error {
	head := frag.ChunkHeaderBytes
	switch {
	case mem != nil:
		p.Memory, p.to, p.base = mem, p.aim.put, p.aim.offset
		head = frag.HeaderBytes(frag.KindChunk, p.to.Flags)
	case p.aim != nil:
		p.next, p.aim = nil, nil
	}
	if p.Memory == nil && !p.Armed {
		return nil
	}
	if p.lander.Land(p.Memory, head) {
		p.Armed = p.Memory != nil
		return nil
	}
	// The provider refuses memory for direct receive until it has reported all datagrams of the
	// previous poll.
	p.Memory, p.aim = nil, nil
	if p.Armed {
		return ErrSurplus
	}
	return nil
}

// Aim returns the Expectation whose memory is used for direct receive in this poll, and reports
// whether this memory is the target of a put.
func (p *Plan[E]) Aim() (x *Expectation[E], put bool) { return p.aim, p.to.Flags != 0 }

// Done ends the processing of a poll in which the provider was allowed to write payloads directly
// to their destination memory (direct receive).
func (p *Plan[E]) Done() { p.aim = nil }

// Match parses the header of a packet into h. Match reports whether the packet is the expected
// chunk, and its payload was written to the destination memory by the provider. The header h is
// valid only if Match returns true. The caller of Match must compare h.Conn with the connection tag
// of the endpoint.
func (p *Plan[E]) Match(comp *fabric.Completion, h *frag.Header) bool {
	x := p.aim
	if !x.open || x.put.Flags != p.to.Flags || !p.decode(comp, h) || h.FragID != x.fragID ||
		h.OffsetBytes != p.base+comp.LandedOff {
		return false
	}
	return p.to.Flags == 0 || h.Handle == x.put.Handle && h.Op == x.put.op &&
		h.PutOffset == p.to.At+uint64(comp.LandedOff)
}

// decode parses the header of a chunk whose payload the provider has written directly to the
// destination memory. The receive buffer contains only the header of a chunk whose payload was
// received directly. decode reports whether the packet is a chunk with the same flags for puts and
// operations as the expected chunk.
func (p *Plan[E]) decode(comp *fabric.Completion, h *frag.Header) bool {
	headBytes := int(comp.Len - comp.Landed)
	if comp.Landed == 0 || comp.Errno != 0 || headBytes > p.arena.Size() {
		return false
	}
	n, err := frag.DecodeSplit(p.arena.Bytes(comp.Buf)[:headBytes], int(comp.Len), h)
	return err == nil && n == headBytes && h.Kind == frag.KindChunk &&
		h.Flags&(frag.FlagPut|frag.FlagOp) == p.to.Flags
}

// Accept adds a chunk to its message if the chunk's payload is already in the memory of the
// message. The argument h of Accept is the header of the chunk. The argument inOrder of Accept says
// whether all packets before the packet of the chunk have arrived. Accept returns the message if
// the message is complete, and otherwise nil.
func (p *Plan[E]) Accept(h *frag.Header, inOrder bool) (*frag.Message, error) {
	x := p.aim
	if !x.begins {
		return x.asm.AddLanded(h, int(h.PayloadLen))
	}
	msg, err := x.asm.BeginLanded(h, int(h.PayloadLen), inOrder, p.Memory)
	x.begins = err != nil
	return msg, err
}

// Claim reports whether the provider has written the payload of a put's chunk to the memory
// "target", where the payload belongs. After Claim has returned true for a chunk, Restore does not
// zero the bytes of this chunk.
func (p *Plan[E]) Claim(comp *fabric.Completion, target []byte) bool {
	if len(target) == 0 || &target[0] != &p.Memory[comp.LandedOff] {
		return false
	}
	p.claimed += uint32(len(target))
	return true
}

// Restore copies the payloads of unexpected packets from the memory for direct receive to the
// receive buffers of these packets, after the headers. If the Plan had predicted the first chunk of
// a new fragment, Restore withdraws the prediction, because a poll for predicted chunks can be
// limited to few packets.
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
		if b := p.arena.Bytes(comp.Buf); int(comp.Len) <= len(b) { // a longer datagram is dropped
			copy(b[comp.Len-landed:comp.Len], p.Memory[comp.LandedOff:])
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

// scrub zeroes the bytes of a region that the provider has overwritten with the payloads of the
// unexpected packets in comps.
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
	rest := p.Memory[p.claimed:]
	clear(rest[:min(uint64(len(rest)), arrived)])
	p.claimed = uint32(len(p.Memory)) // a handler that runs from now on may close the region
}
