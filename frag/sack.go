package frag

import "gobtl/internal/seq"

// Optional abilities, bits of Hello.Features: one is in use where both sides announce it.
const (
	// FeatureSack: an Ack that goes alone carries a Sack.
	FeatureSack = 1 << 0
)

// Sizes of the body of an Ack with FlagSack.
const (
	SackHeadBytes = 12 // a Sack without words
	SackWordsMax  = 64 // words of a Sack, at most
	SackAhead     = 2  // bit 0 of word 0 is that many numbers after the ack

	// SackBytesMax is the largest Sack.
	SackBytesMax = SackHeadBytes + 8*SackWordsMax
)

// Sack is the body of an Ack with FlagSack: what has arrived behind the first gap, and what the
// peer needs to measure the round trip.
type Sack struct {
	// Words has bit i of word w set if the packet of number Header.Ack+SackAhead+64w+i has been taken
	// over. (The one of number Header.Ack+1 is missing, or Ack would be higher.) The last word is not
	// zero.
	Words [SackWordsMax]uint64
	// Count is how many of Words there are.
	Count int
	// Last is the number of the packet that was taken over last, and DelayUs how long ago that was.
	// Before that it had waited unread for at most UnreadUs: so long ago the receiver last found
	// nothing left to read. Both are 65535 if it was longer.
	Last              seq.Num
	DelayUs, UnreadUs uint16
	// Copies counts, modulo 2^32, the packets received that had been taken over before.
	Copies uint32
}

// Bytes is the length of the encoded Sack.
func (s *Sack) Bytes() int { return SackHeadBytes + 8*s.Count }

// Encode writes the Sack at the start of b and returns its length.
func (s *Sack) Encode(b []byte) int {
	n := s.Bytes()
	b = b[:n]
	le.PutUint16(b[0:], s.DelayUs)
	le.PutUint16(b[2:], s.UnreadUs)
	le.PutUint32(b[4:], s.Copies)
	le.PutUint32(b[8:], uint32(s.Last))
	for i, w := range s.Words[:s.Count] {
		le.PutUint64(b[SackHeadBytes+8*i:], w)
	}
	return n
}

// DecodeSack reads the payload of an Ack with FlagSack, which Decode has checked. Words beyond
// Count keep what they had.
func DecodeSack(p []byte, s *Sack) {
	s.DelayUs, s.UnreadUs = le.Uint16(p[0:]), le.Uint16(p[2:])
	s.Copies, s.Last = le.Uint32(p[4:]), seq.Num(le.Uint32(p[8:]))
	s.Count = (len(p) - SackHeadBytes) / 8
	for i := range s.Count {
		s.Words[i] = le.Uint64(p[SackHeadBytes+8*i:])
	}
}

// sackLength says whether a Sack can have that many bytes.
func sackLength(n int) bool {
	return n >= SackHeadBytes && n <= SackBytesMax && (n-SackHeadBytes)%8 == 0
}
