package regions

import (
	"testing"

	"gobtl/fabric"
)

func TestRegions(t *testing.T) {
	t.Parallel()
	var table Table
	if table.Get(0) != nil || table.Get(1) != nil || table.Remove(0) {
		t.Error("an empty table has regions")
	}
	mem := make([]byte, 8)
	old := fabric.Region(0)
	for range 3 << generationBits {
		r, err := table.Add(mem)
		if err != nil || r == 0 || r == old || table.Get(old) != nil || len(table.Get(r)) != 8 {
			t.Fatalf("region %x after %x: %v", r, old, err)
		}
		if !table.Remove(r) || table.Remove(r) {
			t.Fatal("a region is dropped not once")
		}
		old = r
	}
	if len(table.slots) != 2 {
		t.Errorf("%d slots for one region at a time", len(table.slots))
	}
}
