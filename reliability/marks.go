package reliability

import (
	"math/bits"

	"gobtl/internal/seq"
)

// The type marks holds two bitmaps of a Sender's packets in flight, with the same indices as the
// Sender's ring of segments. The bitmaps let a search in a large window skip 64 packets at a time.
type marks []uint64

// The function sized returns empty bitmaps for a ring whose number of entries, places, is a power
// of two.
func sized(places int) marks { return make(marks, 2*((places+63)/64)) }

// early returns the bitmap of the packets that arrived earlier than a packet with a lower number.
// The Sender's ring of segments holds noToken for the packets in this bitmap.
func (m marks) early() []uint64 { return m[:len(m)/2] }

// aside returns the bitmap of the packets that the profile adaptive has declared lost, or that are
// on the retransmission list.
func (m marks) aside() []uint64 { return m[len(m)/2:] }

// needMarks allocates the two bitmaps (marks) of the Sender if it has none.
func (s *Sender) needMarks() {
	if len(s.marks) == 0 {
		s.marks = sized(len(s.ring))
	}
}

func (s *Sender) place(n seq.Num) (word uint32, bit uint64) {
	i := uint32(n) & uint32(len(s.ring)-1)
	return i >> 6, 1 << (i & 63)
}

func (s *Sender) markEarly(n seq.Num) {
	s.needMarks()
	word, bit := s.place(n)
	s.marks.early()[word] |= bit
}

func (s *Sender) unmarkEarly(n seq.Num) {
	word, bit := s.place(n)
	s.marks.early()[word] &^= bit
}

func (s *Sender) setAside(n seq.Num) {
	s.needMarks()
	word, bit := s.place(n)
	s.marks.aside()[word] |= bit
}

func (s *Sender) takeBack(n seq.Num) {
	word, bit := s.place(n)
	s.marks.aside()[word] &^= bit
}

// The method marked returns the bits of a sequence number in flight in the two bitmaps early
// (arrived out of order) and aside (lost or to be retransmitted).
func (s *Sender) marked(n seq.Num) (early, aside bool) {
	if len(s.marks) == 0 {
		return false, false
	}
	word, bit := s.place(n)
	return s.marks.early()[word]&bit != 0, s.marks.aside()[word]&bit != 0
}

// nextOpen returns the first sequence number, from n on, whose bit is set neither in the bitmap
// early nor in the bitmap aside. If the bits of all sequence numbers from n on are set in one of
// the bitmaps, nextOpen returns s.next.
func (s *Sender) nextOpen(n seq.Num) seq.Num {
	if len(s.marks) == 0 {
		return n
	}
	early, aside := s.marks.early(), s.marks.aside()
	for n.Before(s.next) {
		word, shift, left := s.from(n)
		open := ^(early[word] | aside[word]) >> shift
		if k := uint32(bits.TrailingZeros64(open)); k < left {
			if n = n.Add(k); n.Before(s.next) {
				return n
			}
			break // the bit has no number
		}
		n = n.Add(left)
	}
	return s.next
}

// nextAside returns the first sequence number, from n on, whose bit in the bitmap aside is set, or
// s.next if there is none.
func (s *Sender) nextAside(n seq.Num) seq.Num {
	if len(s.marks) == 0 {
		return s.next
	}
	aside := s.marks.aside()
	for n.Before(s.next) {
		word, shift, left := s.from(n)
		if k := uint32(bits.TrailingZeros64(aside[word] >> shift)); k < left {
			return n.Add(k)
		}
		n = n.Add(left)
	}
	return s.next
}

// The method named from returns the position of the bit of sequence number n in a bitmap. Its
// results are the index of the word, the bit of n in the word, and the number of bits from this bit
// to the end of the word.
func (s *Sender) from(n seq.Num) (word, shift, left uint32) {
	i := uint32(n) & uint32(len(s.ring)-1)
	shift = i & 63
	return i >> 6, shift, min(64-shift, uint32(len(s.ring))-i)
}

// earlyFrom returns the bits of the 64 sequence numbers from n on in the bitmap early, as one word.
// A set bit means that the packet arrived earlier than a packet with a lower number. For a ring of
// fewer than 64 entries the result of earlyFrom is 0, and the caller must search bit by bit.
func (s *Sender) earlyFrom(n seq.Num) uint64 {
	if len(s.ring) < 64 || len(s.marks) == 0 {
		return 0
	}
	word, shift, _ := s.from(n)
	early := s.marks.early()
	behind := (word + 1) & uint32(len(early)-1)
	return early[word]>>shift | early[behind]<<(64-shift)
}
