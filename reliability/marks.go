package reliability

import (
	"math/bits"

	"gobtl/internal/seq"
)

// marks are bitmaps of the packets in flight, indexed like the ring of their Sender. The bitmaps
// let a search in a large window skip 64 packets at a time.
type marks []uint64

// sized returns empty marks for a ring of places entries, a power of two.
func sized(places int) marks { return make(marks, 2*((places+63)/64)) }

// early is the bitmap of the packets that arrived before an older packet. The ring holds noToken
// for these packets.
func (m marks) early() []uint64 { return m[:len(m)/2] }

// aside is the bitmap of the packets that the profile adaptive has declared lost, or that are on
// the resend list.
func (m marks) aside() []uint64 { return m[len(m)/2:] }

// needMarks allocates the marks if there are none.
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

// marked returns the two marks, early and aside, of a sequence number in flight.
func (s *Sender) marked(n seq.Num) (early, aside bool) {
	if len(s.marks) == 0 {
		return false, false
	}
	word, bit := s.place(n)
	return s.marks.early()[word]&bit != 0, s.marks.aside()[word]&bit != 0
}

// nextOpen returns the first sequence number, from n on, that is neither marked early nor aside.
// If all numbers have a mark, nextOpen returns s.next.
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

// nextAside returns the first sequence number, from n on, with the mark aside, or s.next if there
// is none.
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

// from returns the position of the mark of sequence number n. The results of from are the index
// of the word, the bit of n in the word, and the number of marks in the word from n on.
func (s *Sender) from(n seq.Num) (word, shift, left uint32) {
	i := uint32(n) & uint32(len(s.ring)-1)
	shift = i & 63
	return i >> 6, shift, min(64-shift, uint32(len(s.ring))-i)
}

// earlyFrom returns the early marks of the 64 sequence numbers from n on as one word. An
// early mark means that the packet arrived before an older packet. For a ring of fewer than
// 64 entries the result of earlyFrom is 0, and the caller must search bit by bit.
func (s *Sender) earlyFrom(n seq.Num) uint64 {
	if len(s.ring) < 64 || len(s.marks) == 0 {
		return 0
	}
	word, shift, _ := s.from(n)
	early := s.marks.early()
	behind := (word + 1) & uint32(len(early)-1)
	return early[word]>>shift | early[behind]<<(64-shift)
}
