package reliability

import "gobtl/internal/seq"

// A peer grants credits both in packets and in bytes. The packet limit and the byte limit
// of the peer apply to the packets that are not known to have arrived. The packet that reaches the
// byte limit is sent even if its size exceeds the rest of the limit. A byte limit below the size of
// one packet never stops a sender completely.

// NoBytesBound is the byte credit of a peer that sets no limit in bytes.
const NoBytesBound = unlimited

// Carry adds sizeBytes, the size of a sent packet or the change of its size, to the bytes in
// flight. For packets that OnAck or OnSack have freed, sizeBytes is negative.
func (s *Sender) Carry(sizeBytes int) { s.bytes += sizeBytes }

// InFlightBytes is the sum of the sizes that the caller passed to Carry for the packets in flight.
func (s *Sender) InFlightBytes() int {
	if a := s.policy.adaptive; a != nil {
		return s.bytes + a.refused.bytes
	}
	return s.bytes
}

// BoundBytes sets the byte credit that an ACK carries. For each ACK that is valid and not outdated,
// the caller calls OnAck, then Carry, and then BoundBytes. A credit of less than one byte counts as
// one byte. BoundBytes has no effect if a newer ACK has raised the packet limit already. A packet
// with a reserved sequence number may be sent even if the byte limit is reached. The argument
// promised of BoundBytes is true if a sequence number is reserved for a packet not yet sent.
func (s *Sender) BoundBytes(ack seq.Num, credit uint16, grantedBytes int, promised bool) {
	if grantedBytes == s.bytesMax || ack.Add(1+max(1, uint32(credit))).Before(s.limit) {
		return
	}
	s.bytesMax = max(grantedBytes, 1)
	if promised {
		s.bytesMax = max(s.bytesMax, s.bytes+1)
	}
}
