package reliability

import "gobtl/internal/seq"

// A peer grants packets, and besides bytes: of the packets that have arrived nowhere as far as the
// sender knows. The packet that reaches the bound is still sent, whatever its size, so that a
// bound which is less than a packet stops nobody, and nothing has to be known of a packet before
// it is made.

// NoBytesBound is a number of bytes that bounds nothing.
const NoBytesBound = unlimited

// Carry notes how many bytes a packet in flight has, or by how many it is larger than before
// (negative: smaller), and those of packets that OnAck or OnSack have freed, as negative ones.
func (s *Sender) Carry(sizeBytes int) { s.bytes += sizeBytes }

// InFlightBytes is the sum of what Carry was told of the packets in flight.
func (s *Sender) InFlightBytes() int {
	if a := s.policy.adaptive; a != nil {
		return s.bytes + a.refused.bytes
	}
	return s.bytes
}

// BoundBytes notes how many bytes the peer grants by an ACK that is neither bogus nor old, after
// OnAck and Carry: less than one is one. It counts if no other ACK has told a higher limit: what
// was granted with that still holds. A packet that was promised a number, and is not admitted yet,
// may be sent all the same.
func (s *Sender) BoundBytes(ack seq.Num, credit uint16, grantedBytes int, promised bool) {
	if grantedBytes == s.bytesMax || ack.Add(1+max(1, uint32(credit))).Before(s.limit) {
		return
	}
	s.bytesMax = max(grantedBytes, 1)
	if promised {
		s.bytesMax = max(s.bytesMax, s.bytes+1)
	}
}
