package reliability

import "gobtl/internal/seq"

// A peer grants credits both in packets and in bytes. The packet limit and the byte limit that a
// peer has granted apply to all sent packets, except those that are known to have arrived. If the
// number of bytes in flight is below the byte limit, the sender is allowed to send one more packet,
// even if this packet exceeds the limit. A sender is therefore never stopped completely by a byte
// limit that is smaller than one packet.

// NoBytesBound is the value of a byte credit that means that the bytes in flight have no limit.
const NoBytesBound = unlimited

// Carry adds the size of a sent packet, or a change of this size, to the number of bytes in flight.
// After OnAck or OnSack has freed packets, the caller must call Carry with the negative sum of
// their sizes.
func (s *Sender) Carry(sizeBytes int) { s.bytes += sizeBytes }

// InFlightBytes returns the total size of the packets in flight, as the caller has reported it by
// Carry.
func (s *Sender) InFlightBytes() int {
	if a := s.policy.adaptive; a != nil {
		return s.bytes + a.refused.bytes
	}
	return s.bytes
}

// BoundBytes sets the limit of bytes in flight to the byte credit of a received ACK. For each valid
// ACK that is not outdated, the caller must call OnAck, then Carry for the freed packets, and then
// BoundBytes. BoundBytes treats a byte credit of less than 1 as 1. If an ACK that is newer than the
// given one has already raised the packet limit, BoundBytes has no effect. A packet whose sequence
// number is reserved may be sent even if the byte limit is reached (see Admits).
func (s *Sender) BoundBytes(ack seq.Num, credit uint16, grantedBytes int) {
	if grantedBytes == s.bytesMax || ack.Add(1+max(1, uint32(credit))).Before(s.limit) {
		return
	}
	s.bytesMax = max(grantedBytes, 1)
}
