package list

import (
	"slices"
	"testing"

	"pgregory.net/rapid"
)

// item is a value with one place.
type item struct{ at Node[*item] }

// all returns the values of a list from the first to the last.
func all(l *List[*item]) (s []*item) {
	for v := l.First(); v != nil; v = v.at.Next() {
		s = append(s, v)
	}
	return s
}

// TestModel compares two lists with slices.
func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		var lists [2]List[*item]
		var models [2][]*item
		items := make([]*item, 6)
		for i := range items {
			items[i] = new(item)
		}
		for range rapid.IntRange(0, 100).Draw(t, "steps") {
			v := rapid.SampledFrom(items).Draw(t, "item")
			if v.at.Listed() {
				v.at.Remove()
				for i := range models {
					models[i] = slices.DeleteFunc(models[i], func(w *item) bool { return w == v })
				}
			} else if i := rapid.IntRange(0, 1).Draw(t, "list"); rapid.Bool().Draw(t, "front") {
				lists[i].PushFront(&v.at, v)
				models[i] = slices.Insert(models[i], 0, v)
			} else {
				lists[i].PushBack(&v.at, v)
				models[i] = append(models[i], v)
			}
			for i := range lists {
				compare(t, &lists[i], models[i])
			}
		}
	})
}

func compare(t *rapid.T, l *List[*item], want []*item) {
	t.Helper()
	if err := l.Check(); err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(all(l), want) || l.Len() != len(want) {
		t.Fatalf("%d values, want %d, or another order", l.Len(), len(want))
	}
	if len(want) > 0 && l.Last() != want[len(want)-1] || len(want) == 0 && l.Last() != nil {
		t.Fatal("another last value")
	}
}

// A Node that is in no list may be removed, and keeps no reference to its value.
func TestRemoved(t *testing.T) {
	t.Parallel()
	var l List[*item]
	v := new(item)
	v.at.Remove()
	l.PushBack(&v.at, v)
	v.at.Remove()
	v.at.Remove()
	if v.at != (Node[*item]{}) || v.at.Listed() ||
		l.First() != nil || l.Last() != nil || l.Len() != 0 {
		t.Errorf("%+v, and %d in the list", v.at, l.Len())
	}
}

// An operation looks only at its Node, the Node's neighbours and the ends of the list: a walk
// through the list would end at the links that this test cuts.
func TestWithoutWalk(t *testing.T) {
	t.Parallel()
	var l List[*item]
	var v [9]item
	for i := range v {
		l.PushBack(&v[i].at, &v[i])
	}
	v[1].at.next, v[1].at.prev = nil, nil
	v[5].at.next, v[5].at.prev = nil, nil
	v[8].at.Remove()
	v[3].at.Remove()
	l.PushBack(&v[3].at, &v[3])
	l.PushFront(&v[8].at, &v[8])
	if l.First() != &v[8] || v[8].at.Next() != &v[0] || v[7].at.Next() != &v[3] || l.Last() != &v[3] {
		t.Error("another order")
	}
}

// Check finds each kind of damage.
func TestCheck(t *testing.T) {
	t.Parallel()
	for name, damage := range map[string]func(l *List[*item], v [3]*item){
		"in no list": func(_ *List[*item], v [3]*item) { v[2].at = Node[*item]{} },
		"link back":  func(_ *List[*item], v [3]*item) { v[1].at.prev = nil },
		"ring":       func(_ *List[*item], v [3]*item) { v[2].at.next = &v[0].at },
		"first":      func(l *List[*item], v [3]*item) { l.ends.next = &v[1].at },
		"in two lists": func(_ *List[*item], v [3]*item) {
			new(List[*item]).PushBack(&v[0].at, v[0])
		},
		"last": func(l *List[*item], v [3]*item) { l.ends.prev = &v[1].at },
	} {
		var l List[*item]
		var v [3]*item
		for i := range v {
			v[i] = new(item)
			l.PushBack(&v[i].at, v[i])
		}
		if err := l.Check(); err != nil {
			t.Fatal(err)
		}
		if damage(&l, v); l.Check() == nil {
			t.Errorf("%s: not found", name)
		}
	}
}

func TestAllocs(t *testing.T) {
	var l List[*item]
	a, b := new(item), new(item)
	if n := testing.AllocsPerRun(100, func() {
		l.PushBack(&a.at, a)
		l.PushFront(&b.at, b)
		l.First().at.Remove()
		l.Last().at.Remove()
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
