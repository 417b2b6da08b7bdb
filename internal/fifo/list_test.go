package fifo

import (
	"testing"

	"pgregory.net/rapid"
)

// A List gives out what was put in, in the order in which it was, and keeps nothing of it.
func TestListModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var q List[*int]
		var want []*int
		for range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.Bool().Draw(t, "push") {
				v := new(int)
				q.Push(v)
				want = append(want, v)
				continue
			}
			got, ok := q.Pop()
			if ok != (len(want) > 0) || ok && got != want[0] {
				t.Fatalf("took %p, %v; %d were in", got, ok, len(want))
			}
			want = want[min(1, len(want)):]
		}
		if q.Len() != len(want) || len(q.All()) != len(want) {
			t.Fatalf("%d are in, want %d", q.Len(), len(want))
		}
		for i, v := range q.All() {
			if v != want[i] {
				t.Fatalf("number %d is another one", i)
			}
		}
		for i, v := range q.items[:cap(q.items)] {
			if v != nil && (i < q.head || i >= len(q.items)) {
				t.Fatalf("it keeps what it has given out: %d of [%d, %d)", i, q.head, len(q.items))
			}
		}
	})
}
