package inbound

// Tags is a set of tags. The zero value is empty.
type Tags [4]uint64

// Has reports whether the tag is in the set.
func (s *Tags) Has(tag uint8) bool { return s[tag/64]>>(tag%64)&1 != 0 }

// Add adds a tag to the set.
func (s *Tags) Add(tag uint8) { s[tag/64] |= 1 << (tag % 64) }
