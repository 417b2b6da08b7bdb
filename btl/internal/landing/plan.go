package landing

import (
	"errors"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// Plan is the state of the landings on one channel. The zero Plan has no landings.
type Plan[E any] struct {
	lander    fabric.Lander // nil: the channel has no landings
	on        *port.Channel // the channel with landings; nil if lander is nil
	arena     *fabric.Arena
	armed     bool // the provider has been told a landing
	pause     int  // polls to do without a landing
	justWhole bool // a fragment of large packets has become whole since the latest poll
	learned   bool // learn has run for this poll

	next   *Expectation[E] // whose memory is the next landing; nil: none
	latest *Expectation[E] // of the peer whose chunk arrived last
	before *Expectation[E] // value of latest when this poll began

	aim     *Expectation[E] // whose memory is the landing of this poll, until Done
	base    uint32          // offset of the landing in the fragment of aim
	to      Put             // of this poll's landing
	mem     []byte          // the landing, from the expected chunk on
	claimed uint32          // bytes of the landing of a put that were accepted

	guessMin uint32 // least fragment size for which a first chunk is expected
}

// GuessBytesMin is the fragment size, in bytes, from which on a landing for the first chunks saves
// time. For smaller fragments, a poll without a landing is faster, because such a poll receives
// several fragments at once.
const GuessBytesMin = 32 << 10

// bytesMax is the maximum size, in bytes, of a landing.
const bytesMax = 1 << 20

// MissedMax is the number of consecutive polls without the expected chunk after which the chunk is
// not expected any more. A chunk that arrives in its receive buffer restarts the landings for the
// next chunks.
const MissedMax = 2

// PausePolls is the number of polls without a landing after a landing got unexpected packets.
// Unexpected packets arrive, for example, when two peers send large fragments at the same time.
const PausePolls = 2

// AloneBytesMin is the packet size, in bytes, from which on packets arrive one by one. For smaller
// packets, one poll may return a whole segmentation-offload train, even beyond the poll's limit.
const AloneBytesMin = 16 << 10

// Init prepares a Plan for the landings of channel c, whose provider takes landings through lander.
// The receive buffers of c are in arena. The first chunk of a fragment is expected from guessMin
// bytes on, usually GuessBytesMin.
func (p *Plan[E]) Init(c *port.Channel, lander fabric.Lander, arena *fabric.Arena,
	guessMin uint32,
) {
	*p = Plan[E]{on: c, lander: lander, arena: arena, guessMin: guessMin}
}

// On reports whether channel c has landings.
func (p *Plan[E]) On(c *port.Channel) bool { return p.on == c }

// Due reports whether the next poll of channel c needs a landing, or has to withdraw the latest
// landing.
func (p *Plan[E]) Due(c *port.Channel) bool { return p.on == c && (p.armed || p.next != nil) }

// Armed reports whether the provider has a landing, which the next poll replaces or withdraws.
func (p *Plan[E]) Armed() bool { return p.armed }

// OneByOne reports whether the next poll should ask for a single packet. OneByOne is true if no
// landing is planned, and the channel was idle or a fragment of large packets has just become
// whole. After the first chunk of a large fragment, the following chunks can then be received in
// place.
func (p *Plan[E]) OneByOne(idle bool) bool {
	one := p.next == nil && (idle || p.justWhole)
	if one {
		p.justWhole = false
	}
	return one
}

// Worth reports whether a fragment of sizeBytes is large enough for landings.
func (p *Plan[E]) Worth(sizeBytes uint32) bool { return sizeBytes >= p.guessMin }

// ChunkCame updates the Expectation of a peer after the arrival of a message's chunk with the
// header h. Parameter whole says that the fragment is complete. After two fragments of the same
// size from a peer, a third fragment of that size is expected. The landing for its first chunks is
// the buffer that the fragment will get.
func (p *Plan[E]) ChunkCame(x *Expectation[E], h *frag.Header, whole bool) {
	x.missed, x.put = 0, Put{}
	if whole {
		p.justWhole = int(h.ChunkBytes)+frag.ChunkHeaderBytes >= AloneBytesMin
		x.begins = p.Worth(h.SizeBytes) && x.bytes == h.SizeBytes
		x.open, x.fragID, x.offset, x.bytes = x.begins, h.FragID+1, 0, h.SizeBytes
		x.first, x.chunk = h.FirstBytes, h.ChunkBytes
	} else {
		x.open, x.begins = true, false
		x.fragID, x.offset, x.chunk = h.FragID, h.OffsetBytes+uint32(h.PayloadLen), h.ChunkBytes
	}
	p.plan(x)
}

// PutCame updates the Expectation of a peer after the acceptance of a put's chunk with the header
// h. If no byte behind the chunk has arrived, the bytes behind the chunk are expected next. The
// memory of a region belongs to the application, so there is no landing for the first chunk of a
// put, nor for bytes that have arrived already.
func (p *Plan[E]) PutCame(x *Expectation[E], h *frag.Header) {
	end := h.OffsetBytes + uint32(h.PayloadLen)
	if !x.puts.reached(h.FragID, end) {
		return
	}
	chunk := max(x.chunk, h.PayloadLen) // the last chunk may be small
	x.missed, x.begins, x.bytes = 0, false, 0
	x.open = end < h.SizeBytes
	x.fragID, x.offset, x.chunk = h.FragID, end, h.PayloadLen
	x.put = Put{
		Flags: h.Flags & (frag.FlagPut | frag.FlagOp), op: h.Op, Handle: h.Handle,
		At: h.PutOffset + uint64(h.PayloadLen), Bytes: h.SizeBytes - end,
	}
	if end == h.SizeBytes {
		p.justWhole = int(chunk)+frag.HeaderBytes(h.Kind, h.Flags) >= AloneBytesMin
	}
	p.plan(x)
}

// OtherCame ends the expectation of a chunk, because another packet has come or the endpoint is
// being closed. x may be nil.
func (p *Plan[E]) OtherCame(x *Expectation[E]) {
	if x != nil && x.open {
		p.expectNothing(x)
	}
}

func (p *Plan[E]) expectNothing(x *Expectation[E]) {
	x.close()
	if p.next == x {
		p.next = nil
	}
}

// plan chooses whose memory is the landing of the next poll. The chunks of x are the latest to
// arrive.
func (p *Plan[E]) plan(x *Expectation[E]) {
	p.learn(x)
	p.next = nil
	if next := x.next.living(); next != nil && next.open {
		p.next = next
	} else if x.open {
		p.next = x
	}
}

// learn records that chunks of x have followed the chunks of the last sender of earlier polls. Only
// the first call of learn in a poll has an effect on the fields next and rival.
func (p *Plan[E]) learn(x *Expectation[E]) {
	p.latest = x
	if p.learned {
		return
	}
	p.learned = true
	before := p.before.living()
	if before == nil {
		return
	}
	switch {
	case before.next == x:
		before.rival = nil
	case before.rival == x:
		before.next, before.rival = x, nil
	default:
		before.rival = x
	}
}

// Check verifies that no poll has left its landing behind.
func (p *Plan[E]) Check() error {
	if p.aim != nil {
		return errors.New("a landing outlives its poll")
	}
	return nil
}
