package frag

import (
	"math/bits"

	"gobtl/internal/seq"
)

// The constants below are bits of Hello.Features. A connection uses a feature if both ends of the
// connection announce the feature.
const (
	// FeatureSack permits Ack packets with a payload, which is a Sack (selective acknowledgement).
	FeatureSack = 1 << 0
	// FeatureAsk permits Ack packets that request an acknowledgement (FlagAsk). FeatureAsk has no
	// effect on a connection over a reliable network.
	FeatureAsk = 1 << 4
	// FeatureLater permits packets with FlagLater, whose acknowledgement the receiver may delay for
	// longer than the usual ACK delay. FeatureLater has an effect only on connections that use
	// FeatureSack and FeatureAsk.
	FeatureLater = 1 << 5
)

// The constants below describe the encoding of a Sack, which is the payload of an Ack with
// FlagSack.
const (
	SackHeadBytes  = 24  // a Sack without ranges
	SackRangesMax  = 256 // largest number of ranges in a Sack
	SackRangeBytes = 4
	SackAhead      = 2 // distance from the ack to the number with SackRange.Start 0

	// SackBytesMax is the largest Sack in bytes.
	SackBytesMax = SackHeadBytes + SackRangeBytes*SackRangesMax
)

// SackRange is a range of consecutive sequence numbers whose packets have arrived. A SackRange
// begins with the sequence number Header.Ack+SackAhead+Start, and contains More+1 sequence numbers.
type SackRange struct{ Start, More uint16 }

// The method "end" returns the offset of the first packet after the range, counted from sequence
// number Header.Ack+SackAhead as in the field Start.
func (r SackRange) end() uint32 { return uint32(r.Start) + uint32(r.More) + 1 }

// Sack is the payload of an Ack with FlagSack. A Sack reports which packets have arrived after the
// first gap in the sequence numbers, and for how long the ACK was delayed.
type Sack struct {
	// Ranges lists the packets that were accepted after the first gap in the sequence numbers, in
	// ascending order. Between two ranges of a Sack, at least one packet is missing. In a Sack, the
	// packet with the sequence number Header.Ack+1 is always missing.
	Ranges [SackRangesMax]SackRange
	// Count is the number of valid elements of Ranges.
	Count int
	// Last is the sequence number of the packet that the sender of the Sack accepted most recently.
	// DelayUs is the time in microseconds between the acceptance of packet Last and the sending of the
	// Sack. UnreadUs is an upper bound, in microseconds, for the time that packet Last has waited in
	// the receive queue. UnreadUs is the time from the latest moment at which the receive queue was
	// empty to the receipt of packet Last. DelayUs and UnreadUs are at most 65535.
	Last              seq.Num
	DelayUs, UnreadUs uint16
	// Copies counts, modulo 2^32, the duplicate packets that the sender of the Sack has received.
	Copies uint32
	// LastNumber is the packet number (Header.Number) of the transmission by which the packet with
	// sequence number Last arrived. LastData says whether the packet with sequence number Last arrived
	// on the data channel (true) or on the command channel (false). Before the first packet is
	// accepted, LastNumber is 0 and LastData is false.
	LastNumber uint32
	LastData   bool
	// Marks counts, modulo 2^32, received packets that the network has marked with ECN Congestion
	// Experienced. Marks is 0 if the fabric does not report Congestion Experienced.
	Marks uint32
}

// Bytes returns the length of the encoded Sack.
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

// DecodeSack decodes the payload of an Ack with FlagSack, which Decode has checked. DecodeSack
// leaves the elements of Ranges from the index Count on unchanged.
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

// checkSack checks that the ranges of a Sack are in ascending order with a gap between any two of
// them, and that all ranges are within the largest window.
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

// Words writes the ranges of the Sack as a bitmap to the slice "words". Bit i of words[w] is set if
// the packet with the sequence number Header.Ack+SackAhead+64w+i has arrived. Words returns the
// number of words up to the last one that is not zero. The slice "words" must have at least
// WindowMax bits.
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

// SetWords sets the ranges of the Sack from a bitmap in the format that Words writes. The argument
// "most" of SetWords is the largest number of ranges to set.
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
