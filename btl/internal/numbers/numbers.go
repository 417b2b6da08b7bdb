// Package numbers counts the packets that are sent to a peer on each channel, retransmissions
// included: no two packets on a channel have the same number. Now and then a number is skipped,
// which exposes a peer that acknowledges packets that it has not received.
//
//	taken     1 .. n     n+1       n+2 ..
//	on wire   sent       never     the next ones
//
// Start reading at Numbers.Take.
//
// What is here belongs to the goroutine of its owner.
package numbers

import "gobtl/btl/internal/port"

// Numbers has the packet numbers of one connection. The zero value has sent nothing.
type Numbers struct {
	ways [2]way // by channel
	// Seen is the number of the latest accepted packet of the peer, SeenBy its channel; Acks report
	// both. The owner sets them.
	Seen   uint32
	SeenBy port.Which
}

// way is the packet number space of one channel.
type way struct {
	next    uint64 // the latest one taken, or left out
	left    int32  // numbers until one is left out
	skipped uint64 // the one that was left out last
}

const (
	// SkipEvery is the number of used packet numbers per skipped one, on average and at most.
	SkipEvery = 512
	// skipsLeast is the least number of skipped packet numbers, on average, per withheld packet.
	skipsLeast = 16
)

// Source is what all connections of an owner draw from: it says when a number is skipped, and when
// a packet is to be withheld.
type Source struct {
	random func() uint64
	every  uint64 // packets per withheld one; 0: none is
	due    [2]withholding
}

// withholding is a channel's state of withholding a packet of its batch.
type withholding struct {
	due  bool
	from uint32 // a random number, which chooses where in the batch to look for it
}

// Init has random decide. Every is the number of packets of which one is withheld on average, 0 for
// none.
func (s *Source) Init(random func() uint64, every int) { s.random, s.every = random, uint64(every) }

// Due says whether a packet of a channel's batch is to be withheld.
func (s *Source) Due(by port.Which) bool { return s.due[by].due }

// Withhold is called to withhold a packet of a channel's batch. The result says where in the batch
// to look for it.
func (s *Source) Withhold(by port.Which) (from uint32) {
	s.due[by].due = false
	return s.due[by].from
}

// Take returns the first of count consecutive packet numbers of a channel, in wire form.
func (n *Numbers) Take(s *Source, by port.Which, count uint32) uint32 {
	w := &n.ways[by]
	if w.left -= int32(count); w.left <= 0 {
		s.skip(w, by)
	}
	first := uint32(w.next) + 1
	w.next += uint64(count)
	return first
}

// Latest is the number of the latest packet on each channel.
func (n *Numbers) Latest() [2]uint32 {
	return [2]uint32{uint32(n.ways[port.Command].next), uint32(n.ways[port.Data].next)}
}

// Sent says whether a packet of that number can have been seen on a channel: it was sent, and is
// not the latest skipped one. 0 is reported by a peer that has seen no packet.
func (n *Numbers) Sent(number uint32, by port.Which) bool {
	w := &n.ways[by]
	return int32(uint32(w.next)-number) >= 0 && (number != uint32(w.skipped) || number == 0)
}

// skip leaves out the next number, unless it is the first of all, and chooses the distance to the
// next skip. Now and then a packet of the batch is withheld, too.
func (s *Source) skip(w *way, by port.Which) {
	if w.next != 0 {
		w.next++
		w.skipped = w.next
	}
	r, every := s.random(), uint64(SkipEvery)
	if s.every > 0 { // 0: without the profile adaptive, which withholds nothing
		every = min(every, s.every/skipsLeast)
	}
	w.left = int32(1 + r%(2*every))
	if s.every > 0 && r>>32%(s.every/every) == 0 {
		s.due[by] = withholding{due: true, from: uint32(r >> 40)}
	}
}
