package inbound

import "math/bits"

// Tags is a set of message tags. A zero Tags is the empty set.
type Tags [4]uint64

// Has reports whether the tag is in the set.
func (s *Tags) Has(tag uint8) bool { return s[tag/64]>>(tag%64)&1 != 0 }

// First returns the lowest tag in the set, or 0 if the set is empty.
func (s *Tags) First() uint8 {
	for i, word := range s {
		if word != 0 {
			return uint8(64*i + bits.TrailingZeros64(word))
		}
	}
	return 0
}

// Remove removes a tag from the set.
func (s *Tags) Remove(tag uint8) { s[tag/64] &^= 1 << (tag % 64) }

// Add adds a tag to the set.
func (s *Tags) Add(tag uint8) { s[tag/64] |= 1 << (tag % 64) }
