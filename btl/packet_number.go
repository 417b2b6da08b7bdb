package btl

import (
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
)

// via is the channel that carries a packet.
type via = port.Which

const (
	viaCommand = port.Command
	viaData    = port.Data
)

// numbers counts the packets that are sent to a peer on each channel, retransmissions included: no
// two packets on a channel have the same number. Now and then a number is skipped, which exposes a
// peer that acknowledges packets that it has not received.
//
//	taken     1 .. n     n+1       n+2 ..
//	on wire   sent       never     the next ones
type numbers struct {
	ways [2]numbering // by via
	// seen is the number of the latest accepted packet of the peer, seenBy its channel; Acks report
	// both.
	seen   uint32
	seenBy via
}

// numbering is the packet number space of one channel.
type numbering struct {
	next    uint64 // the latest one taken, or left out
	left    int32  // numbers until one is left out
	skipped uint64 // the one that was left out last
}

const (
	// skipEvery is the number of used packet numbers per skipped one, on average and at most.
	skipEvery = 512
	// skipsLeast is the least number of skipped packet numbers, on average, per withheld packet.
	skipsLeast = 16
)

// take returns the first of count consecutive packet numbers, in wire form.
func (n *numbers) take(m *Module, way via, count uint32) uint32 {
	w := &n.ways[way]
	if w.left -= int32(count); w.left <= 0 {
		w.skip(m, way)
	}
	first := uint32(w.next) + 1
	w.next += uint64(count)
	return first
}

// latest is the number of the latest packet on each channel.
func (n *numbers) latest() liveness.Sent {
	return liveness.Sent{uint32(n.ways[viaCommand].next), uint32(n.ways[viaData].next)}
}

// sent says whether a packet of that number can have been seen on a channel: it was sent, and is
// not the latest skipped one. 0 is reported by a peer that has seen no packet.
func (n *numbers) sent(number uint32, way via) bool {
	w := &n.ways[way]
	return int32(uint32(w.next)-number) >= 0 && (number != uint32(w.skipped) || number == 0)
}

// skip leaves out the next number, unless it is the first of all, and chooses the distance to the
// next skip. Now and then a packet of the batch is withheld, too.
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
