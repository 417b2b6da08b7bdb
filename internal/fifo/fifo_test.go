package fifo_test

import (
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gobtl/internal/fifo"
)

// TestModel compares a queue with a slice, for all positions of the ring's beginning, and while the
// queue grows.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		room := rapid.IntRange(0, 9).Draw(t, "room")
		limit := rapid.IntRange(room, 200).Draw(t, "limit")
		q, model, next := fifo.New[int](room), []int{}, 0
		t.Repeat(map[string]func(*rapid.T){
			"push": func(t *rapid.T) {
				if q.Full() {
					t.Skip("full")
				}
				next++
				q.Push(next)
				model = append(model, next)
			},
			"pop": func(t *rapid.T) {
				if q.Len() == 0 {
					t.Skip("empty")
				}
				if got := *q.Front(); got != model[0] {
					t.Fatalf("in front is %d, want %d", got, model[0])
				}
				if got := q.Pop(); got != model[0] {
					t.Fatalf("popped %d, want %d", got, model[0])
				}
				model = slices.Delete(model, 0, 1)
			},
			"fill": func(*rapid.T) {
				for !q.Full() {
					next++
					q.Push(next)
					model = append(model, next)
				}
			},
			"grow": func(t *rapid.T) {
				full := q.Full()
				q.Grow(limit)
				if full && q.Full() != (len(model) >= limit) {
					t.Fatalf("full is %v after growing from %d, limit %d", q.Full(), len(model), limit)
				}
			},
			"": func(t *rapid.T) {
				if q.Len() != len(model) || len(model) > limit {
					t.Fatalf("%d items, want %d; limit %d", q.Len(), len(model), limit)
				}
			},
		})
		for _, want := range model {
			if got := q.Pop(); got != want {
				t.Fatalf("popped %d at the end, want %d", got, want)
			}
		}
	})
}

// TestAppend compares a queue that grows as needed with a slice.
func TestAppend(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		q, model := fifo.New[int](rapid.IntRange(0, 9).Draw(t, "room")), []int{}
		for next := range rapid.IntRange(0, 200).Draw(t, "steps") {
			if rapid.IntRange(0, 2).Draw(t, "pop") == 0 && len(model) > 0 {
				q.Pop()
				model = model[1:]
				continue
			}
			q.Append(next)
			model = append(model, next)
			for i, want := range model {
				if got := *q.At(i); got != want || q.Len() != len(model) {
					t.Fatalf("item %d of %d is %d, want %d of %d", i, q.Len(), got, want, len(model))
				}
			}
		}
	})
}

// TestGrow checks the sizes. A queue is full after as many items as it has room for.
func TestGrow(t *testing.T) {
	t.Parallel()
	var q fifo.Queue[byte]
	var sizes []int
	for len(sizes) < 4 {
		q.Grow(200)
		for !q.Full() {
			q.Push(0)
		}
		sizes = append(sizes, q.Len())
	}
	if want := []int{64, 128, 200, 200}; !slices.Equal(sizes, want) {
		t.Errorf("sizes %v, want %v", sizes, want)
	}
}

func TestAllocs(t *testing.T) {
	q := fifo.New[int](4)
	if n := testing.AllocsPerRun(100, func() {
		q.Push(1)
		q.Push(*q.Front())
		q.Pop()
		q.Pop()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
