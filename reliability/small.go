package reliability

// small lets a peer whose packets are small send more of them than the receive buffer holds full
// ones. What a waiting datagram takes of that is a constant and about its length, so that of a full
// one of 64 KiB many small ones find room. Half of what a peer's places stand for is
// counted out in packets, as if they had no length, and half in bytes, as if that were all that
// they take; one place is for the packet that reaches the bound in bytes, and may be full:
//
//	places   |  one  |            the others             |
//	packets      1      perPlace each, whatever they are
//	bytes      any one  bytesPerPlace each
//
// Either way the buffer holds what comes, whatever the sizes are. Who sends large packets is
// granted as many as there are places, without a bound in bytes: these are safe, too. Which of
// both it is depends on the mean of what the peer has sent lately.
type small struct {
	perPlace      int // packets; 0: the fabric does not say what datagrams take
	bytesPerPlace int
}

// load is what a Receiver knows of its peer's packets.
type load struct {
	bytes   int    // since the latest Grant
	mean    int    // bytes of a packet, lately; 0: not known
	granted int    // bytes, by the latest Grant
	packets uint32 // that came since the latest Grant
	small   bool   // so few that the peer is granted more packets, and a bound in bytes
	bounded bool   // has such a bound, or had it when packets were granted that it still has
}

// Small lets peers with small packets have more credits than there are places: perPlace packets and
// bytesPerPlace bytes instead of a full one. It does nothing if that is not at least two packets.
func (c *Credits) Small(perPlace, bytesPerPlace int) {
	if perPlace >= 2 && bytesPerPlace > 0 {
		c.small = small{perPlace, bytesPerPlace}
	}
}

// Weigh tells how large packets were that are booked by Accept or AcceptRun.
func (r *Receiver) Weigh(packets uint32, sizeBytes int) {
	r.load.packets += packets
	r.load.bytes += sizeBytes
}

// GrantedBytes is the bound in bytes that goes with what Grant or TakeAck has returned last, or
// NoBytesBound.
func (r *Receiver) GrantedBytes() int { return r.load.granted }

// weigh finds out whether a peer's packets are small.
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

// boundBytes is the bound in bytes for a peer that has so many packets and its places.
func (c *Credits) boundBytes(r *Receiver, packets uint32) int {
	full := c.fullPackets(r, int(r.booked))
	l := &r.load
	l.bounded = (l.small || l.bounded) && packets > full
	if !l.bounded {
		return NoBytesBound
	}
	return max((int(full)-1)*c.bytesPerPlace, 1)
}

// spread is how many full packets are the same as so many of the peer's.
func (c *Credits) spread(r *Receiver, packets uint32) uint32 {
	if !r.load.small || packets == 0 {
		return packets
	}
	return 1 + (packets-1+uint32(c.perPlace)-1)/uint32(c.perPlace)
}

// places is how many of them so many packets of a peer take.
func (c *Credits) places(r *Receiver, packets uint32) int {
	return c.fullPlaces(r, c.spread(r, packets))
}

// packets is how many of a peer so many places are for.
func (c *Credits) packets(r *Receiver, places int) uint32 {
	full := c.fullPackets(r, places)
	if !r.load.small || full == 0 {
		return full
	}
	return 1 + min(full-1, 1<<16)*uint32(c.perPlace)
}
