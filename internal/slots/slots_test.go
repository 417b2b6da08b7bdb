package slots

import (
	"testing"

	"pgregory.net/rapid"
)

// TestModel compares a table with a map from handles to values. The handles are new each time.
func TestModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		placesMax := rapid.IntRange(1, 4).Draw(t, "places")
		var table Table[*int]
		table.Init(2, placesMax)
		model := map[uint64]*int{}
		var used []uint64 // present and earlier handles
		some := func() uint64 {
			if len(used) > 0 && rapid.Bool().Draw(t, "used") {
				return rapid.SampledFrom(used).Draw(t, "handle")
			}
			return rapid.Uint64().Draw(t, "any")
		}
		random := uint64(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			random++
			switch rapid.IntRange(0, 3).Draw(t, "step") {
			case 0:
				full := table.Full()
				h, ok := table.Add(random, new(int))
				if ok == full || ok != (len(model) < placesMax) || ok && h>>2 != random {
					t.Fatalf("added %#x, %v to %d", h, ok, len(model))
				}
				if ok {
					model[h], _ = table.Get(h)
					used = append(used, h)
				}
			case 1:
				h := some()
				if ok := table.Remove(h); ok != (model[h] != nil) {
					t.Fatalf("removed %#x: %v", h, ok)
				}
				delete(model, h)
			case 2:
				h, v := some(), new(int)
				if table.Replace(h, v); model[h] != nil {
					model[h] = v
				}
			case 3:
				h := some()
				v := model[h]
				renamed := table.Rename(h, random)
				if v == nil {
					break
				}
				delete(model, h)
				model[renamed], used = v, append(used, renamed)
				if table.Slot(renamed) != table.Slot(h) || table.At(table.Slot(h)) != v {
					t.Fatalf("%#x became %#x", h, renamed)
				}
			}
			for _, h := range append(used, some()) {
				if v, ok := table.Get(h); v != model[h] || ok != (model[h] != nil) {
					t.Fatalf("%#x: %v, %v", h, v, ok)
				}
			}
			live := 0
			for _, v := range table.Values() {
				if v != nil {
					live++
				}
			}
			if live != len(model) || table.Len() != live {
				t.Fatalf("%d values, %d counted, want %d", live, table.Len(), len(model))
			}
			if err := table.Check(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// TestCheckSees checks that Check detects each violation.
func TestCheckSees(t *testing.T) {
	for name, harm := range map[string]func(*Table[int]){
		"handle": func(t *Table[int]) { t.handles[1]++ },
		"lost":   func(t *Table[int]) { t.free = nil },
		"taken":  func(t *Table[int]) { t.free[0] = 1 },
		"beyond": func(t *Table[int]) { t.max = 2 },
		"values": func(t *Table[int]) { t.values = t.values[:2] },
	} {
		var table Table[int]
		table.Init(4, 5)
		first, _ := table.Add(7, 1)
		table.Add(8, 2)
		table.Add(9, 3)
		table.Remove(first)
		if err := table.Check(); err != nil {
			t.Fatal(err)
		}
		if harm(&table); table.Check() == nil {
			t.Errorf("%s: Check sees nothing", name)
		}
	}
}
