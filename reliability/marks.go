package reliability

import (
	"math/bits"

	"gobtl/internal/seq"
)

// The type "marks" holds two bitmaps, each with one bit for each entry of the Sender's ring of
// packets in flight. With the bitmaps, a search in a large send window examines 64 packets at a
// time.
type marks struct {
	// The bitmap "early" marks the packets that have arrived before a packet with a lower number. For
	// each packet that is marked in the bitmap "early", the Sender's ring contains noToken.
	early []uint64
	// The bitmap "aside" marks the packets on the retransmission list, and the packets that the
	// profile adaptive has declared lost.
	aside []uint64
}

// needMarks allocates the Sender's bitmaps "early" and "aside" if the Sender has none.
func (s *Sender) needMarks() {
	if s.marks == nil {
		words := (len(s.ring) + 63) / 64
		s.marks = &marks{early: make([]uint64, words), aside: make([]uint64, words)}
	}
}

func (s *Sender) place(n seq.Num) (word uint32, bit uint64) {
	i := uint32(n) & uint32(len(s.ring)-1)
	return i >> 6, 1 << (i & 63)
}

func (s *Sender) markEarly(n seq.Num) {
	s.needMarks()
	word, bit := s.place(n)
	s.marks.early[word] |= bit
}

func (s *Sender) unmarkEarly(n seq.Num) {
	word, bit := s.place(n)
	s.marks.early[word] &^= bit
}

func (s *Sender) setAside(n seq.Num) {
	s.needMarks()
	word, bit := s.place(n)
	s.marks.aside[word] |= bit
}

func (s *Sender) takeBack(n seq.Num) {
	word, bit := s.place(n)
	s.marks.aside[word] &^= bit
}

// The method "marked" reports whether packet n is marked in the bitmap "early" (arrived out of
// order), and whether it is marked in the bitmap "aside" (lost or to be retransmitted).
func (s *Sender) marked(n seq.Num) (early, aside bool) {
	if s.marks == nil {
		return false, false
	}
	word, bit := s.place(n)
	return s.marks.early[word]&bit != 0, s.marks.aside[word]&bit != 0
}

// nextOpen returns the first sequence number, not before n, of a packet that is marked neither in
// the bitmap "early" nor in the bitmap "aside". If all packets from n on are marked, nextOpen
// returns s.next.
func (s *Sender) nextOpen(n seq.Num) seq.Num {
	if s.marks == nil {
		return n
	}
	early, aside := s.marks.early, s.marks.aside
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

// nextAside returns the first sequence number, not before n, of a packet that is marked in the
// bitmap "aside", or s.next if no such packet is marked.
func (s *Sender) nextAside(n seq.Num) seq.Num {
	if s.marks == nil {
		return s.next
	}
	aside := s.marks.aside
	for n.Before(s.next) {
		word, shift, left := s.from(n)
		if k := uint32(bits.TrailingZeros64(aside[word] >> shift)); k < left {
			return n.Add(k)
		}
		n = n.Add(left)
	}
	return s.next
}

// The method "from" returns the position of the bit for sequence number n in a bitmap of the
// Sender. The results of the method "from" are the index of a 64-bit word, the position of the bit
// for n in this word, and the number of bits from this position to the end of the word or the
// bitmap.
func (s *Sender) from(n seq.Num) (word, shift, left uint32) {
	i := uint32(n) & uint32(len(s.ring)-1)
	shift = i & 63
	return i >> 6, shift, min(64-shift, uint32(len(s.ring))-i)
}

// earlyFrom returns 64 bits of the bitmap "early", for the packets with the sequence numbers n to
// n+63. A set bit in the result of earlyFrom means that the packet has arrived out of order. For a
// ring of fewer than 64 entries, the result of earlyFrom is 0, and the caller must examine the
// packets one by one.
func (s *Sender) earlyFrom(n seq.Num) uint64 {
	if len(s.ring) < 64 || s.marks == nil {
		return 0
	}
	word, shift, _ := s.from(n)
	early := s.marks.early
	behind := (word + 1) & uint32(len(early)-1)
	return early[word]>>shift | early[behind]<<(64-shift)
}
