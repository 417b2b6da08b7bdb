package btl

import (
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
)

// via is the channel that a packet takes.
type via = port.Which

const (
	viaCommand = port.Command
	viaData    = port.Data
)

// numbers counts the packets that are sent to a peer on each channel, copies and all: what a packet
// has is had by no other on that channel. Now and then one is left out, which a peer that
// acknowledges what it has not seen cannot know.
//
//	taken     1 .. n     n+1       n+2 ..
//	on wire   sent       never     the next ones
type numbers struct {
	ways [2]numbering // by via
	// seen is the number of the peer's packet that was taken over last, and seenBy its channel; what
	// an Ack tells of it.
	seen   uint32
	seenBy via
}

// numbering is the count of one channel.
type numbering struct {
	next    uint64 // the latest one taken, or left out
	left    int32  // numbers until one is left out
	skipped uint64 // the one that was left out last
}

const (
	// skipEvery is how many numbers are taken on average for one that is left out, at most.
	skipEvery = 512
	// skipsLeast is how many of them are left out on average until a packet is withheld, at least.
	skipsLeast = 16
)

// take returns the first of count numbers that follow each other, as they stand on the wire.
func (n *numbers) take(m *Module, way via, count uint32) uint32 {
	w := &n.ways[way]
	if w.left -= int32(count); w.left <= 0 {
		w.skip(m, way)
	}
	first := uint32(w.next) + 1
	w.next += uint64(count)
	return first
}

// latest is the number of the last packet of each channel.
func (n *numbers) latest() liveness.Sent {
	return liveness.Sent{uint32(n.ways[viaCommand].next), uint32(n.ways[viaData].next)}
}

// sent says whether a packet of that number can have been seen on a channel: it was sent, and not
// left out a short while ago. 0 is what a peer says that has seen none.
func (n *numbers) sent(number uint32, way via) bool {
	w := &n.ways[way]
	return int32(uint32(w.next)-number) >= 0 && (number != uint32(w.skipped) || number == 0)
}

// skip leaves a number out, unless it would be the very first, and chooses how many come before the
// next one that is. Now and then a packet is withheld of those at hand, too.
func (w *numbering) skip(m *Module, way via) {
	if w.next != 0 {
		w.next++
		w.skipped = w.next
	}
	r, withhold := m.cfg.Random(), uint64(m.rules.WithholdEvery)
	every := uint64(skipEvery)
	if withhold > 0 { // 0: without the profile adaptive, which withholds nothing
		every = min(every, withhold/skipsLeast)
	}
	w.left = int32(1 + r%(2*every))
	if withhold > 0 && r>>32%(withhold/every) == 0 {
		m.withhold[way] = withholding{due: true, from: uint32(r >> 40)}
	}
}
