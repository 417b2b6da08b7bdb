package reliability

import (
	"math/bits"

	"gobtl/internal/seq"
)

// marks are bits of the packets in flight, by place in their Sender's ring: what looks for packets
// in a large window passes over 64 of them at a time, instead of looking at each. The path of a
// packet that arrives in its order touches none of them, and there are none before the first one is
// set.
type marks struct {
	early []uint64 // has arrived before an older one: noToken stands in the ring
	aside []uint64 // adaptive: is taken for lost, or on the resend list
}

// sized returns empty marks for a ring of so many places, a power of two.
func sized(places int) marks {
	words := (places + 63) / 64
	both := make([]uint64, 2*words)
	return marks{early: both[:words:words], aside: both[words:]}
}

// needMarks sees to it that marks can be set.
func (s *Sender) needMarks() {
	if len(s.marks.early) == 0 {
		s.marks = sized(len(s.ring))
	}
}

// place is where the mark of a number stands.
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

// marked returns the two marks of a number in flight.
func (s *Sender) marked(n seq.Num) (early, aside bool) {
	if len(s.marks.early) == 0 {
		return false, false
	}
	word, bit := s.place(n)
	return s.marks.early[word]&bit != 0, s.marks.aside[word]&bit != 0
}

// nextOpen returns the first number from n on that is neither known to have arrived nor set aside;
// s.next if there is none.
func (s *Sender) nextOpen(n seq.Num) seq.Num {
	if len(s.marks.early) == 0 {
		return n
	}
	for n.Before(s.next) {
		word, shift, left := s.from(n)
		open := ^(s.marks.early[word] | s.marks.aside[word]) >> shift
		if k := uint32(bits.TrailingZeros64(open)); k < left {
			if n = n.Add(k); n.Before(s.next) {
				return n
			}
			break // no number has that place
		}
		n = n.Add(left)
	}
	return s.next
}

// nextAside returns the first number from n on that is set aside; s.next if there is none.
func (s *Sender) nextAside(n seq.Num) seq.Num {
	if len(s.marks.early) == 0 {
		return s.next
	}
	for n.Before(s.next) {
		word, shift, left := s.from(n)
		if k := uint32(bits.TrailingZeros64(s.marks.aside[word] >> shift)); k < left {
			return n.Add(k)
		}
		n = n.Add(left)
	}
	return s.next
}

// from is where the marks of n and those behind it stand: a word, how many bits of it are of others
// before, and how many numbers from n on have theirs in it.
func (s *Sender) from(n seq.Num) (word, shift, left uint32) {
	i := uint32(n) & uint32(len(s.ring)-1)
	shift = i & 63
	return i >> 6, shift, min(64-shift, uint32(len(s.ring))-i)
}

// earlyFrom returns the marks of 64 numbers from n on as a word: those that have arrived before an
// older one. 0 for a ring that is smaller, which is searched soon enough.
func (s *Sender) earlyFrom(n seq.Num) uint64 {
	if len(s.ring) < 64 || len(s.marks.early) == 0 {
		return 0
	}
	word, shift, _ := s.from(n)
	behind := (word + 1) & uint32(len(s.marks.early)-1)
	return s.marks.early[word]>>shift | s.marks.early[behind]<<(64-shift)
}
