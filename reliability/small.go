package reliability

// small gives a peer that sends small packets more credits than the receive buffer holds full
// packets. In the receive buffer, a datagram takes about its length plus a constant. A slot of the
// receive buffer is the memory that one full packet takes. Half of the memory of a peer's slots is
// granted as a number of packets, as if packets had no length. The other half of the memory of a
// peer's slots is granted as a number of bytes, as if packets had no constant cost. One slot stays
// reserved for the packet that reaches the byte limit, because this packet may have the full size.
//
//	places   |  one  |            the others             |
//	packets      1      perPlace each, whatever they are
//	bytes      any one  bytesPerPlace each
//
// A peer with large packets is granted one packet per slot, without a byte limit. The mean size
// of the peer's recent packets decides whether the peer's credits have a byte limit.
type small struct {
	perPlace      int // packets; 0: the fabric does not report the cost of datagrams
	bytesPerPlace int
}

// load is a Receiver's statistics of the sizes of its peer's packets.
type load struct {
	bytes   int    // since the latest Grant
	mean    int    // mean bytes of a recent packet; 0: not known
	granted int    // bytes, by the latest Grant
	packets uint32 // received since the latest Grant
	small   bool   // the mean is so small that more packets and a byte limit are granted
	bounded bool   // the peer has a byte limit, or unused credits from a grant with a limit
}

// Small gives peers that send small packets more credits than the receive buffer has slots for
// full packets. After a call of Small, a slot of the receive buffer has room for perPlace
// small packets with together bytesPerPlace bytes, instead of one full packet. Small does nothing
// if perPlace is less than two.
func (c *Credits) Small(perPlace, bytesPerPlace int) {
	if perPlace >= 2 && bytesPerPlace > 0 {
		c.small = small{perPlace, bytesPerPlace}
	}
}

// Weigh reports the sizes of packets that the caller has passed to Accept or AcceptRun.
func (r *Receiver) Weigh(packets uint32, sizeBytes int) {
	r.load.packets += packets
	r.load.bytes += sizeBytes
}

// GrantedBytes is the byte limit that belongs to the latest result of Grant or TakeAck.
// GrantedBytes is NoBytesBound if there is no byte limit.
func (r *Receiver) GrantedBytes() int { return r.load.granted }

// The method weigh decides whether a peer's packets count as small.
func (c *Credits) weigh(l *load) {
	if l.packets == 0 || c.perPlace == 0 {
		return
	}
	mean := l.bytes / int(l.packets)
	if l.mean != 0 {
		mean = (3*l.mean + mean) / 4
	}
	l.mean, l.bytes, l.packets = mean, 0, 0
	if l.small {
		l.small = mean <= c.bytesPerPlace
	} else {
		l.small = mean <= c.bytesPerPlace/2
	}
}

// boundBytes returns the byte limit of a peer that is granted the given number of packets. The byte
// limit depends on the buffer slots that the peer's credits take.
func (c *Credits) boundBytes(r *Receiver, packets uint32) int {
	full := c.fullPackets(r, int(r.booked))
	l := &r.load
	l.bounded = (l.small || l.bounded) && packets > full
	if !l.bounded {
		return NoBytesBound
	}
	return max((int(full)-1)*c.bytesPerPlace, 1)
}

// The method spread converts a number of the peer's packets to the number of full packets that take
// the same memory.
func (c *Credits) spread(r *Receiver, packets uint32) uint32 {
	if !r.load.small || packets == 0 {
		return packets
	}
	return 1 + (packets-1+uint32(c.perPlace)-1)/uint32(c.perPlace)
}

// places is the number of buffer slots that the given number of the peer's packets takes.
func (c *Credits) places(r *Receiver, packets uint32) int {
	return c.fullPlaces(r, c.spread(r, packets))
}

// packets is the number of the peer's packets that fit in the given number of buffer slots.
func (c *Credits) packets(r *Receiver, places int) uint32 {
	full := c.fullPackets(r, places)
	if !r.load.small || full == 0 {
		return full
	}
	return 1 + min(full-1, 1<<16)*uint32(c.perPlace)
}
