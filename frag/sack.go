package frag

import (
	"math/bits"

	"gobtl/internal/seq"
)

// Optional abilities, bits of Hello.Features: one is in use where both sides announce it.
const (
	// FeatureSack: an Ack that goes alone carries a Sack.
	FeatureSack = 1 << 0
	// FeatureAsk: an Ack may ask for one (FlagAsk). It counts for nothing in a reliable connection.
	FeatureAsk = 1 << 4
	// FeatureLater: the acknowledgement of a lone answer may be held back (FlagLater). It counts only
	// together with the two above.
	FeatureLater = 1 << 5
)

// Sizes of the body of an Ack with FlagSack.
const (
	SackHeadBytes  = 24  // a Sack without ranges
	SackRangesMax  = 256 // ranges of a Sack, at most
	SackRangeBytes = 4
	SackAhead      = 2 // the number that SackRange.Start counts from is that far from the ack

	// SackBytesMax is the largest Sack.
	SackBytesMax = SackHeadBytes + SackRangeBytes*SackRangesMax
)

// SackRange is packets that follow each other and have arrived: those of number
// Header.Ack+SackAhead+Start, and of so many behind it as More says.
type SackRange struct{ Start, More uint16 }

// end is the number behind the range.
func (r SackRange) end() uint32 { return uint32(r.Start) + uint32(r.More) + 1 }

// Sack is the body of an Ack with FlagSack: what has arrived behind the first gap, and what the
// peer needs to measure the round trip.
type Sack struct {
	// Ranges are those of the packets that have been taken over behind the first gap, in ascending
	// order, with at least one number between them. (Number Header.Ack+1 is missing, or Ack would be
	// higher.)
	Ranges [SackRangesMax]SackRange
	// Count is how many of Ranges there are.
	Count int
	// Last is the number of the packet that was taken over last, and DelayUs how long ago that was.
	// Before that it had waited unread for at most UnreadUs: so long ago the receiver last found
	// nothing left to read. Both are 65535 if it was longer.
	Last              seq.Num
	DelayUs, UnreadUs uint16
	// Copies counts, modulo 2^32, the packets received that had been taken over before.
	Copies uint32
	// LastNumber is the packet number (Header.Number) of the copy of packet Last that was taken over,
	// and LastData says that it came by the data channel. Both are zero before the first packet.
	LastNumber uint32
	LastData   bool
	// Marks counts, modulo 2^32, the packets that the network has marked with congestion experienced;
	// 0 where the fabric does not tell.
	Marks uint32
}

// Bytes is the length of the encoded Sack.
func (s *Sack) Bytes() int { return SackHeadBytes + SackRangeBytes*s.Count }

// Encode writes the Sack at the start of b and returns its length.
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

// DecodeSack reads the payload of an Ack with FlagSack, which Decode has checked. Ranges beyond
// Count keep what they had.
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

// sackRange reads the i-th range of a Sack.
func sackRange(p []byte, i int) SackRange {
	w := le.Uint32(p[SackHeadBytes+SackRangeBytes*i:])
	return SackRange{uint16(w), uint16(w >> 16)}
}

// sackLength says whether a Sack can have that many bytes.
func sackLength(n int) bool {
	return n >= SackHeadBytes && n <= SackBytesMax && (n-SackHeadBytes)%SackRangeBytes == 0
}

// checkSack checks what sackLength does not: the ranges ascend and do not touch, and end where
// numbers do that a window can hold.
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

// Words writes the ranges as bits: bit i of words[w] is set if number Header.Ack+SackAhead+64w+i
// has arrived. It returns how many words it wrote, of which the last is not zero; words must be as
// many as WindowMax bits have.
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

// SetWords makes the ranges those of bits as Words writes them, at most so many ranges.
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
