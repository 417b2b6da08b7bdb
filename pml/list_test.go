package pml

import "testing"

// A table grows in small steps: a call of add looks at a few values only, however many there are.
func TestTableGrowsInSteps(t *testing.T) {
	t.Parallel()
	const count = 40 * bucketsMin
	hashed := 0
	q := newTable(func(m *Message) *links[Message] { return &m.same },
		func(m *Message) uint64 { hashed++; return hash(1, 0, m.tag) })
	for i := range count {
		before := hashed
		if q.add(&Message{tag: uint64(i) % 1000}); hashed-before > 1+moveSteps {
			t.Fatalf("value %d: %d values were hashed", i, hashed-before)
		}
	}
	if len(q.buckets) < count/4 {
		t.Errorf("%d values have %d buckets", count, len(q.buckets))
	}
}
