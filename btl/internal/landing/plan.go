package landing

import (
	"errors"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
)

// Plan is the state of direct receive (of chunks into their destination memory) on one channel. A
// zero Plan uses no direct receive.
type Plan[E any] struct {
	lander    fabric.Lander // nil: the channel has no direct receive
	Channel   *port.Channel // the channel with direct receive; nil if lander is nil
	arena     *fabric.Arena
	Armed     bool // the provider has memory for direct receive
	pause     int  // number of the next polls that must not use direct receive
	justWhole bool // a fragment of packets >= OneByOneBytesMin was completed since the latest poll
	learned   bool // learn has run for this poll

	next   *Expectation[E] // Expectation whose memory the next poll uses, or nil
	latest *Expectation[E] // of the peer whose chunk arrived last
	before *Expectation[E] // value of the field "latest" when this poll began

	aim     *Expectation[E] // Expectation whose memory this poll uses, until Done
	base    uint32          // offset of mem in the fragment of aim
	to      Put             // put whose target is Memory
	Memory  []byte          // memory for direct receive, from the expected chunk on
	claimed uint32          // bytes in Memory of put chunks that were accepted

	guessMin uint32 // minimum size of a fragment whose first chunk the Plan predicts
}

// GuessBytesMin is the minimum size, in bytes, of a fragment that the Plan predicts before any
// chunk of the fragment has arrived.
const GuessBytesMin = 32 << 10

// bytesMax is the maximum size of the memory for direct receive, in bytes.
const bytesMax = 1 << 20

// MissedMax is the number of consecutive polls without the expected chunk after which the Plan no
// longer expects a chunk from the peer. The Plan expects chunks from the peer again when a chunk
// from this peer has arrived in a receive buffer.
const MissedMax = 2

// PausePolls is the number of polls without direct receive after a poll with unexpected packets.
// Packets are unexpected, for example, if two peers send large fragments at the same time.
const PausePolls = 2

// OneByOneBytesMin is the minimum packet size, in bytes, at which a poll can be limited to one
// packet. For packets smaller than OneByOneBytesMin, a poll can return more packets than its limit,
// because the kernel coalesces small packets.
const OneByOneBytesMin = 16 << 10

// Init prepares a Plan for channel c, whose provider supports direct receive (fabric.Lander). The
// argument "arena" of Init contains the receive buffers of channel c. The first chunk of a fragment
// is received directly into its destination memory only if the fragment has at least guessMin bytes
// (usually GuessBytesMin).
func (p *Plan[E]) Init(c *port.Channel, lander fabric.Lander, arena *fabric.Arena,
	guessMin uint32,
) {
	*p = Plan[E]{Channel: c, lander: lander, arena: arena, guessMin: guessMin}
}

// Due reports whether the next poll of channel c must give memory for direct receive to the
// provider, or must withdraw the memory that was given for a previous poll.
func (p *Plan[E]) Due(c *port.Channel) bool { return p.Channel == c && (p.Armed || p.next != nil) }

// OneByOne reports whether the next poll should ask for a single packet. OneByOne returns true if
// the next poll has no memory for direct receive, and either the channel was idle, or a fragment
// whose packets have at least OneByOneBytesMin bytes was just completed. After a poll that returns
// only the first chunk of a large fragment, the provider can receive the remaining chunks directly
// into their destination memory.
func (p *Plan[E]) OneByOne(idle bool) bool {
	one := p.next == nil && (idle || p.justWhole)
	if one {
		p.justWhole = false
	}
	return one
}

// Worth reports whether a fragment of sizeBytes is large enough for direct receive to be useful.
func (p *Plan[E]) Worth(sizeBytes uint32) bool { return sizeBytes >= p.guessMin }

// ChunkCame updates the Expectation of a peer when a chunk of a message, with the header h, has
// arrived. The argument "whole" of ChunkCame says whether the fragment is complete. After two
// fragments of equal size from a peer, the Plan expects a third fragment of this size. The provider
// writes the chunks of an expected fragment directly to the buffer that is intended for the
// fragment.
func (p *Plan[E]) ChunkCame(x *Expectation[E], h *frag.Header, whole bool) {
	x.missed, x.put = 0, Put{}
	if whole {
		p.justWhole = int(h.ChunkBytes)+frag.ChunkHeaderBytes >= OneByOneBytesMin
		x.begins = p.Worth(h.SizeBytes) && x.bytes == h.SizeBytes
		x.open, x.fragID, x.offset, x.bytes = x.begins, h.FragID+1, 0, h.SizeBytes
		x.first, x.chunk = h.FirstBytes, h.ChunkBytes
	} else {
		x.open, x.begins = true, false
		x.fragID, x.offset, x.chunk = h.FragID, h.OffsetBytes+uint32(h.PayloadLen), h.ChunkBytes
	}
	p.plan(x)
}

// PutCame updates the Expectation x of a peer after a chunk of one of the peer's puts was accepted.
// The argument h of PutCame is the header of the accepted chunk. If the accepted chunk is not the
// end of its put, PutCame predicts that the peer's next chunk contains the bytes that directly
// follow the accepted chunk in the put. If some bytes of the put after the accepted chunk have
// already arrived, or if a chunk of a later put has arrived, PutCame does not change the
// prediction. The provider never writes the first chunk of a put directly to the target region,
// because a wrong prediction would overwrite memory of the application.
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
		p.justWhole = int(chunk)+frag.HeaderBytes(h.Kind, h.Flags) >= OneByOneBytesMin
	}
	p.plan(x)
}

// OtherCame makes the Plan predict no next chunk for the peer of x. The caller must call OtherCame
// when an unexpected packet of the peer has arrived, or when the endpoint closes. The argument x of
// OtherCame may be nil.
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

// The method "plan" chooses the Expectation whose memory is used for direct receive in the next
// poll. The argument x of the method "plan" is the Expectation of the peer whose chunks arrived
// last.
func (p *Plan[E]) plan(x *Expectation[E]) {
	p.learn(x)
	p.next = nil
	if next := x.next.living(); next != nil && next.open {
		p.next = next
	} else if x.open {
		p.next = x
	}
}

// learn records that chunks from the peer of Expectation x have followed the chunks from the peer
// of Expectation p.before, which arrived in an earlier poll. The Plan predicts the peer of the next
// chunks from the order in which chunks of different peers have arrived.
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

// Check returns an error if memory for direct receive is still in use after its poll is over, and
// nil otherwise.
func (p *Plan[E]) Check() error {
	if p.aim != nil {
		return errors.New("a landing outlives its poll")
	}
	return nil
}
