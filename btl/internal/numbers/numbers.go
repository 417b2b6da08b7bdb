package numbers

import "gobtl/btl/internal/port"

// Numbers contains the packet numbers of one connection. A zero Numbers means that no packet was
// sent.
type Numbers struct {
	ways [2]way // by channel
	// Seen is the number of the latest accepted packet of the peer, and SeenBy is the channel of that
	// packet. ACKs report both Seen and SeenBy to the peer.
	Seen   uint32
	SeenBy port.Which
}

// The type "way" contains the packet numbers of one channel.
type way struct {
	latest  uint32 // the latest number taken or skipped, modulo 2^32 as on the wire
	skipped uint32 // the latest skipped number
	left    int32  // numbers until the next skipped number
}

const (
	// SkipEvery is the average number of used packet numbers for each skipped packet number. A sender
	// that holds back packets (gives them a number without sending them) can skip numbers more often
	// than once in SkipEvery numbers.
	SkipEvery = 512
	// For each packet that is held back (gets a number but is not sent), at least skipsLeast packet
	// numbers are skipped on average.
	skipsLeast = 16
)

// Source decides when a number is skipped, and when a packet is held back (gets a number but is not
// sent). All connections of a module share one Source.
type Source struct {
	random func() uint64
	every  uint64 // average number of packets for each one that is held back; 0: none is
	due    [2]withholding
}

// The type "withholding" is the decision whether one packet of a channel's present batch must get a
// number without being sent.
type withholding struct {
	due  bool
	from uint32 // a random number, which selects where in the batch to look for the packet
}

// Init sets the source of random numbers. On average, one of "every" packets is held back (gets a
// number but is not sent). If "every" is 0, no packet is held back.
func (s *Source) Init(random func() uint64, every int) { s.random, s.every = random, uint64(every) }

// Due reports whether one packet of the channel's present batch must be held back (must get a
// number, but must not be sent).
func (s *Source) Due(by port.Which) bool { return s.due[by].due }

// Withhold records that the caller does not send one packet of the channel's batch, although the
// packet has a number. Withhold returns a random number, which selects where in the batch the
// caller begins its search for a packet that it will not send.
func (s *Source) Withhold(by port.Which) (from uint32) {
	s.due[by].due = false
	return s.due[by].from
}

// Take reserves consecutive packet numbers of a channel, and returns the first one.
func (n *Numbers) Take(s *Source, by port.Which, count uint32) uint32 {
	w := &n.ways[by]
	if w.left -= int32(count); w.left <= 0 {
		s.skip(w, by)
	}
	first := w.latest + 1
	w.latest += count
	return first
}

// Saw records the number and the channel of an accepted packet of the peer.
func (n *Numbers) Saw(number uint32, by port.Which) { n.Seen, n.SeenBy = number, by }

// Latest returns the number of the latest packet on each channel.
func (n *Numbers) Latest() [2]uint32 {
	return [2]uint32{n.ways[port.Command].latest, n.ways[port.Data].latest}
}

// Sent reports whether the peer can have received a packet with the given number on the given
// channel. The peer cannot have received a packet whose number is not used yet, or is the latest
// skipped number. Sent accepts number 0, which a peer reports until it has received a packet.
func (n *Numbers) Sent(number uint32, by port.Which) bool {
	w := &n.ways[by]
	return int32(w.latest-number) >= 0 && (number != w.skipped || number == 0)
}

func (s *Source) skip(w *way, by port.Which) {
	if w.latest != 0 {
		w.latest++
		w.skipped = w.latest
	}
	r, every := s.random(), uint64(SkipEvery)
	if s.every > 0 { // set only by the profile "adaptive", as no other profile holds packets back
		every = min(every, s.every/skipsLeast)
	}
	w.left = int32(1 + r%(2*every))
	if s.every > 0 && r>>32%(s.every/every) == 0 {
		s.due[by] = withholding{due: true, from: uint32(r >> 40)}
	}
}
