package reliability

import "gobtl/internal/seq"

// A peer grants credits in packets and in bytes; both bound the packets that are not known to have
// arrived. The packet that reaches the byte bound is still sent, whatever its size: so a bound
// below a packet's size stops no sender, and a packet's size need not be known before it is built.

// NoBytesBound is the byte credit that means no bound.
const NoBytesBound = unlimited

// Carry adds the size of a packet in flight, or the change of its size, to the bytes in flight. For
// packets that OnAck or OnSack have freed sizeBytes is negative.
func (s *Sender) Carry(sizeBytes int) { s.bytes += sizeBytes }

// InFlightBytes is the sum of what Carry was told of the packets in flight.
func (s *Sender) InFlightBytes() int {
	if a := s.policy.adaptive; a != nil {
		return s.bytes + a.refused.bytes
	}
	return s.bytes
}

// BoundBytes sets the byte credit of an ACK that is neither bogus nor old, after OnAck and Carry;
// less than one byte counts as one. It has an effect only if no other ACK has given a higher limit,
// whose grant then still holds. A packet with a reserved number, not admitted yet, may be sent in
// any case.
func (s *Sender) BoundBytes(ack seq.Num, credit uint16, grantedBytes int, promised bool) {
	if grantedBytes == s.bytesMax || ack.Add(1+max(1, uint32(credit))).Before(s.limit) {
		return
	}
	s.bytesMax = max(grantedBytes, 1)
	if promised {
		s.bytesMax = max(s.bytesMax, s.bytes+1)
	}
}
