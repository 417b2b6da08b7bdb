package frag

import (
	"math/bits"

	"gobtl/internal/seq"
)

// The constants below are bits of Hello.Features, for optional abilities that are used if both
// ends announce them.
const (
	// FeatureSack says that the payload of an Ack packet may be a Sack.
	FeatureSack = 1 << 0
	// FeatureAsk says that an Ack may request an acknowledgement (FlagAsk). FeatureAsk has no
	// effect in a reliable connection.
	FeatureAsk = 1 << 4
	// FeatureLater says that the peer may delay the acknowledgement of a packet with FlagLater.
	// FeatureLater has an effect only together with FeatureSack and FeatureAsk.
	FeatureLater = 1 << 5
)

// The constants below are sizes of the payload of an Ack with FlagSack.
const (
	SackHeadBytes  = 24  // a Sack without ranges
	SackRangesMax  = 256 // largest number of ranges in a Sack
	SackRangeBytes = 4
	SackAhead      = 2 // distance from the ack to the number with SackRange.Start 0

	// SackBytesMax is the largest Sack in bytes.
	SackBytesMax = SackHeadBytes + SackRangeBytes*SackRangesMax
)

// SackRange is a run of consecutive packets that have arrived. The first packet of a SackRange has
// the sequence number Header.Ack+SackAhead+Start, and the field More is the number of packets that
// follow the first one.
type SackRange struct{ Start, More uint16 }

// The method end returns the position of the first packet after the range, counted in the same way
// as Start.
func (r SackRange) end() uint32 { return uint32(r.Start) + uint32(r.More) + 1 }

// Sack is the payload of an Ack with FlagSack. A Sack reports the packets that have arrived after
// the first gap in the sequence numbers, and the times that the peer needs to measure the round
// trip.
type Sack struct {
	// Ranges are the packets that were accepted after the first gap in the sequence numbers, in
	// ascending order. At least one missing packet lies between two ranges of a Sack. The packet
	// with the sequence number Header.Ack+1 is always missing.
	Ranges [SackRangesMax]SackRange
	// Count is the number of valid elements of Ranges.
	Count int
	// Last is the sequence number of the packet that was accepted last. DelayUs is the time in
	// microseconds that has passed after packet Last was accepted. UnreadUs is the longest time in
	// microseconds that packet Last may have waited in the receive queue, measured from the latest
	// moment at which the queue was empty. DelayUs and UnreadUs are at most 65535.
	Last              seq.Num
	DelayUs, UnreadUs uint16
	// Copies counts, modulo 2^32, the duplicate packets that were received.
	Copies uint32
	// LastNumber is the packet number (Header.Number) of the accepted transmission of the packet
	// with the sequence number Last. LastData is true if the accepted transmission of packet Last
	// arrived on the data channel. LastNumber and LastData are zero before the first packet is
	// accepted.
	LastNumber uint32
	LastData   bool
	// Marks counts, modulo 2^32, the received packets that the network has marked with Congestion
	// Experienced. Marks is 0 if the fabric does not report Congestion Experienced.
	Marks uint32
}

// Bytes is the length of the encoded Sack.
func (s *Sack) Bytes() int { return SackHeadBytes + SackRangeBytes*s.Count }

// Encode writes the Sack at the start of b, and returns the length of the Sack.
func (s *Sack) Encode(b []byte) int {
	n := s.Bytes()
	b = b[:n]
	le.PutUint16(b[0:], s.DelayUs)
	le.PutUint16(b[2:], s.UnreadUs)
	le.PutUint32(b[4:], s.Copies)
	le.PutUint32(b[8:], uint32(s.Last))
	le.PutUint32(b[12:], s.LastNumber)
	le.PutUint32(b[16:], s.Marks)
	data := uint32(0)
	if s.LastData {
		data = 1
	}
	le.PutUint32(b[20:], data)
	for i, r := range s.Ranges[:s.Count] {
		le.PutUint32(b[SackHeadBytes+SackRangeBytes*i:], uint32(r.Start)|uint32(r.More)<<16)
	}
	return n
}

// DecodeSack decodes the payload of an Ack with FlagSack, which Decode has checked. DecodeSack does
// not change Ranges beyond Count.
func DecodeSack(p []byte, s *Sack) {
	s.DelayUs, s.UnreadUs = le.Uint16(p[0:]), le.Uint16(p[2:])
	s.Copies, s.Last = le.Uint32(p[4:]), seq.Num(le.Uint32(p[8:]))
	s.LastNumber, s.Marks = le.Uint32(p[12:]), le.Uint32(p[16:])
	s.LastData = p[20] != 0
	s.Count = (len(p) - SackHeadBytes) / SackRangeBytes
	for i := range s.Count {
		s.Ranges[i] = sackRange(p, i)
	}
}

// sackRange decodes the i-th range of a Sack.
func sackRange(p []byte, i int) SackRange {
	w := le.Uint32(p[SackHeadBytes+SackRangeBytes*i:])
	return SackRange{uint16(w), uint16(w >> 16)}
}

func sackLength(n int) bool {
	return n >= SackHeadBytes && n <= SackBytesMax && (n-SackHeadBytes)%SackRangeBytes == 0
}

// The ranges of a Sack must be in ascending order with at least one missing packet between two
// ranges, and must not reach beyond the largest window.
func checkSack(p []byte) error {
	if le.Uint32(p[20:]) > 1 {
		return ErrReserved
	}
	behind := uint32(0)
	for i := range (len(p) - SackHeadBytes) / SackRangeBytes {
		r := sackRange(p, i)
		if i > 0 && uint32(r.Start) <= behind || r.end() > WindowMax {
			return ErrBounds
		}
		behind = r.end()
	}
	return nil
}

// Words writes the ranges as a bitmap. Bit i of words[w] is set if number
// Header.Ack+SackAhead+64w+i has arrived. Words returns the number of words that it has written,
// and the last of these words is not zero. The argument words of Words must have room for WindowMax
// bits.
func (s *Sack) Words(words []uint64) int {
	if s.Count == 0 {
		return 0
	}
	n := int(s.Ranges[s.Count-1].end()+63) / 64
	clear(words[:n])
	for _, r := range s.Ranges[:s.Count] {
		at, end := uint32(r.Start), r.end()
		for at < end {
			n := min(end-at, 64-at&63)
			words[at>>6] |= (1<<n - 1) << (at & 63)
			at += n
		}
	}
	return n
}

// SetWords sets the ranges from a bitmap in the format that Words writes. The argument most of
// SetWords limits the number of ranges that SetWords sets.
func (s *Sack) SetWords(words []uint64, most int) {
	s.Count = 0
	at, limit := uint32(0), uint32(64*len(words))
	for s.Count < most {
		for at < limit && words[at>>6]>>(at&63) == 0 {
			at = (at | 63) + 1
		}
		if at >= limit {
			return
		}
		at += uint32(bits.TrailingZeros64(words[at>>6] >> (at & 63)))
		start := at
		for at < limit {
			ones := uint32(bits.TrailingZeros64(^(words[at>>6] >> (at & 63))))
			ones = min(ones, 64-at&63)
			at += ones
			if at&63 != 0 || ones == 0 {
				break
			}
		}
		s.Ranges[s.Count] = SackRange{uint16(start), uint16(at - start - 1)}
		s.Count++
	}
}
