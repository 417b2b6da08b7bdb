package numbers

import (
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/seq"
)

// The latest id is never further from an incomplete fragment than allowed, and ids are available
// again when packets are acknowledged. The numbers of ids and packets wrap.
func TestFragmentsStayClose(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		const most = 8
		start := rapid.SampledFrom([]uint32{0, 5, 1<<32 - 3}).Draw(t, "start")
		oldest := seq.Num(rapid.SampledFrom([]uint32{1, 1<<32 - 4}).Draw(t, "packet"))
		next := oldest
		var ids Fragments
		ids.Init(start)
		first := map[uint32]seq.Num{} // first packets of the fragments that may be incomplete
		for range 100 {
			if ids.MayTake(most, oldest, next) && rapid.Bool().Draw(t, "take") {
				before := ids.Last()
				id := ids.Take(oldest, next)
				if id != before+1 || ids.Last() != id {
					t.Fatalf("id %d after %d", id, before)
				}
				first[id] = next
				next++
				for other := range first {
					if id-other >= most {
						t.Fatalf("ids %d and %d are both incomplete", other, id)
					}
				}
			} else if oldest != next {
				oldest++
			}
			for id, n := range first {
				if n.Before(oldest) {
					delete(first, id)
				}
			}
		}
		if !ids.MayTake(most, next, next) {
			t.Error("no id is free when nothing is in flight")
		}
	})
}
