package queue

import (
	"slices"
	"testing"

	"gobtl/btl"
)

// Who waits is told when all that has come is taken: also if of two words, each of which says how
// much was sent by then, the later one comes first, and if less has come than one of them says,
// because a Send was given up. Told once, it is not told again of the same.
func TestQueueToldWhenEmpty(t *testing.T) {
	const window = 1 << 20
	for _, said := range [][]uint64{{100, 200}, {200, 100}, {300}, {300, 200}} {
		q := newReady(0, func(*btl.Endpoint) string { return "" })
		for _, sent := range said {
			q.noteWaits(nil, sent)
		}
		in := q.from[nil]
		in.messages = [][]byte{make([]byte, 36), make([]byte, 36)}
		var due []bool
		for len(in.messages) > 0 {
			in.messages = in.messages[1:]
			in.taken += 100
			due = append(due, in.due(window))
		}
		in.told = in.taken
		if due = append(due, in.due(window)); !slices.Equal(due, []bool{false, true, false}) {
			t.Errorf("waits said at %d: told %v", said, due)
		}
	}
}
