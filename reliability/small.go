package reliability

import "time"

// The type "small" gives a peer that sends small packets more credits than the receive buffer has
// slots for full-sized packets. In a socket's receive buffer, a datagram uses about its length plus
// a constant overhead. A slot is the part of the receive buffer that one full-sized packet uses.
// Half of the memory of a peer's slots is for the overhead of datagrams, and determines how many
// packets are granted. The other half of the memory of a peer's slots is for the bytes of
// datagrams, and determines how many bytes are granted. One slot of each peer stays reserved for
// the packet with which the peer reaches its byte limit, because this packet can be full-sized.
//
//	places   |  one  |            the others             |
//	         |=======|===================================|
//	packets      1      perPlace each, whatever they are
//	bytes      any one  bytesPerPlace each
//
// A peer with large packets is granted one packet per slot, without a byte limit. The mean size of
// a peer's recent packets decides whether its credits have a byte limit.
type small struct {
	perPlace      int // packets; 0: the fabric does not report the cost of datagrams
	bytesPerPlace int
}

// The type "load" contains statistics on the sizes of the packets that a peer sends.
type load struct {
	bytes   uint32 // since the latest Grant, modulo 2^32
	granted int32  // bytes, by the latest Grant
	packets uint32 // received since the latest Grant
	mean    int32  // mean bytes of a recent packet; 0: not known
}

// Small makes the pool give peers that send small packets more credits than the receive buffer has
// slots for full-sized packets. The caller must make sure that perPlace packets with a total size
// of at most bytesPerPlace fit into one slot of the receive buffer. Small does nothing if perPlace
// is less than 2.
func (c *Credits) Small(perPlace, bytesPerPlace int) {
	if perPlace >= 2 && bytesPerPlace > 0 {
		c.small = small{perPlace, bytesPerPlace}
	}
}

// Weigh records the size of a packet for which Accept was called.
func (r *Receiver) Weigh(sizeBytes int) {
	r.load.packets++
	r.load.bytes += uint32(sizeBytes)
}

// GrantedBytes returns the byte limit that belongs to the latest credits from Grant or TakeAck. The
// caller must announce the byte limit to the peer together with the credits from Grant or TakeAck.
// If the peer has no byte limit, GrantedBytes returns NoBytesBound.
func (r *Receiver) GrantedBytes() int { return int(r.load.granted) }

// The method "weigh" decides from the mean packet size whether a peer's packets count as small.
func (c *Credits) weigh(r *Receiver) {
	l := &r.load
	if l.packets == 0 || c.perPlace == 0 {
		return
	}
	mean := int(l.bytes / l.packets)
	if l.mean != 0 {
		mean = (3*int(l.mean) + mean) / 4
	}
	l.mean, l.bytes, l.packets = int32(mean), 0, 0
	if r.small {
		r.small = mean <= c.bytesPerPlace
	} else {
		r.small = mean <= c.bytesPerPlace/2
	}
}

// boundBytes returns the byte limit for a peer with credits for the given number of packets. The
// byte limit grows with the number of buffer slots that the peer's credits take.
func (c *Credits) boundBytes(r *Receiver, packets uint32) int32 {
	full := c.fullPackets(r, int(r.booked))
	r.bounded = (r.small || r.bounded) && packets > full
	if !r.bounded {
		return NoBytesBound
	}
	return int32(min(max((int(full)-1)*c.bytesPerPlace, 1), NoBytesBound))
}

// The method "places" returns how many buffer slots a given number of the peer's packets uses.
func (c *Credits) places(r *Receiver, packets uint32) int {
	if r.small && packets > 0 { // as full packets that take the same memory
		packets = 1 + (packets-1+uint32(c.perPlace)-1)/uint32(c.perPlace)
	}
	path, yes := c.longer(r)
	if !yes {
		return int(packets)
	}
	return int((time.Duration(packets)*c.drain + path - 1) / path)
}

// The method "packets" returns how many of the peer's packets fit in a given number of buffer
// slots.
func (c *Credits) packets(r *Receiver, places int) uint32 {
	full := c.fullPackets(r, places)
	if !r.small || full == 0 {
		return full
	}
	return 1 + min(full-1, 1<<16)*uint32(c.perPlace)
}
