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

// The tables of unreceived messages do not grow at the same time, for all of which they need memory
// at once.
func TestTablesGrowInTurns(t *testing.T) {
	t.Parallel()
	q, p := newUnexpected(1, 0), newPeer(1)
	for mask := range uint64(anyMasks) {
		q.tableFor(mask)
	}
	tables := []*table[Message]{&q.exact}
	for i := range q.any {
		tables = append(tables, &q.any[i])
	}
	const apart = bucketsMin / 8
	latest := -apart
	for i := range 40 * bucketsMin {
		var sizes []int
		for _, table := range tables {
			sizes = append(sizes, len(table.buckets))
		}
		q.add(&Message{peer: p, tag: uint64(i)})
		for j, table := range tables {
			if len(table.buckets) == sizes[j] {
				continue
			}
			if i-latest < apart {
				t.Fatalf("two tables grow at messages %d and %d", latest, i)
			}
			latest = i
		}
	}
	for i, table := range tables {
		if n := len(table.buckets); n < 8*bucketsMin {
			t.Errorf("table %d has %d buckets", i, n)
		}
	}
}
