package numbers

import "gobtl/btl/internal/port"

// Numbers holds the packet numbers of one connection. The zero value means that no packet was sent.
type Numbers struct {
	ways [2]way // by channel
	// Seen is the number of the latest accepted packet of the peer, and SeenBy is the channel of
	// that packet. ACKs report both to the peer.
	Seen   uint32
	SeenBy port.Which
}

// way holds the packet numbers of one channel.
type way struct {
	next    uint64 // the latest number taken or skipped
	left    int32  // numbers until the next skipped number
	skipped uint64 // the latest skipped number
}

const (
	// SkipEvery is the average number of used packet numbers for each skipped packet number. If
	// packets are held back, numbers may be skipped more often.
	SkipEvery = 512
	// skipsLeast is the minimum average number of skipped packet numbers for each packet that is
	// held back (gets a number and is not sent).
	skipsLeast = 16
)

// Source decides when a number is skipped, and when a packet is held back (gets a number but is not
// sent). All connections of a module share one Source.
type Source struct {
	random func() uint64
	every  uint64 // packets per packet that is held back, or 0 if no packet is
	due    [2]withholding
}

// withholding is the decision whether a channel must hold back a packet of its present batch.
type withholding struct {
	due  bool
	from uint32 // a random number, which chooses where in the batch to look for it
}

// Init sets the source of random numbers. The argument every of Init is the average number of
// packets for each packet that is held back, where 0 means that no packet is held back.
func (s *Source) Init(random func() uint64, every int) { s.random, s.every = random, uint64(every) }

// Due reports whether a packet of the channel's batch must be held back.
func (s *Source) Due(by port.Which) bool { return s.due[by].due }

// Withhold records that the caller holds back a packet of the channel's batch. Withhold returns a
// random number that selects the packet of the batch at which the search for a packet that
// may be held back begins.
func (s *Source) Withhold(by port.Which) (from uint32) {
	s.due[by].due = false
	return s.due[by].from
}

// Take returns the first of count consecutive packet numbers of a channel, truncated to 32 bits as
// on the wire.
func (n *Numbers) Take(s *Source, by port.Which, count uint32) uint32 {
	w := &n.ways[by]
	if w.left -= int32(count); w.left <= 0 {
		s.skip(w, by)
	}
	first := uint32(w.next) + 1
	w.next += uint64(count)
	return first
}

// Saw records the number and the channel of an accepted packet of the peer.
func (n *Numbers) Saw(number uint32, by port.Which) { n.Seen, n.SeenBy = number, by }

// Latest is the number of the latest packet on each channel.
func (n *Numbers) Latest() [2]uint32 {
	return [2]uint32{uint32(n.ways[port.Command].next), uint32(n.ways[port.Data].next)}
}

// Sent reports whether the peer can have received a packet with this number on a channel. Sent
// returns false for an unused packet number, and for the latest skipped packet number. A peer
// that has received no packet reports number 0.
func (n *Numbers) Sent(number uint32, by port.Which) bool {
	w := &n.ways[by]
	return int32(uint32(w.next)-number) >= 0 && (number != uint32(w.skipped) || number == 0)
}

func (s *Source) skip(w *way, by port.Which) {
	if w.next != 0 {
		w.next++
		w.skipped = w.next
	}
	r, every := s.random(), uint64(SkipEvery)
	if s.every > 0 { // 0 without the profile adaptive, which alone holds packets back
		every = min(every, s.every/skipsLeast)
	}
	w.left = int32(1 + r%(2*every))
	if s.every > 0 && r>>32%(s.every/every) == 0 {
		s.due[by] = withholding{due: true, from: uint32(r >> 40)}
	}
}
