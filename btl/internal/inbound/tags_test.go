package inbound

import "testing"

// A tag is in the set after Add, and no other tag is.
func TestTags(t *testing.T) {
	var s Tags
	for i := range 256 {
		if s.Has(uint8(i)) {
			t.Fatalf("tag %d is in the set before Add", i)
		}
		s.Add(uint8(i))
		if !s.Has(uint8(i)) {
			t.Fatalf("tag %d is missing", i)
		}
	}
}
