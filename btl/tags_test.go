package btl

import "testing"

// TestTagSet: a tag is in the set from add on, and no other is.
func TestTagSet(t *testing.T) {
	var s tagSet
	for i := range 256 {
		if s.has(uint8(i)) {
			t.Fatalf("%d is in before it was put there", i)
		}
		s.add(uint8(i))
		if !s.has(uint8(i)) {
			t.Fatalf("%d is missing", i)
		}
	}
}
