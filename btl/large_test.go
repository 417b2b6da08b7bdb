package btl

import (
	"testing"

	"gobtl/fabric/mem"
)

// A loop that sends large messages of the transport's memory makes it once.
func TestLargeAllocAgain(t *testing.T) {
	ep := newBench(t, mem.Config{}, 2, Config{}).connect(0, 1)
	var before *byte
	for i := range 3 {
		f, err := ep.Alloc(3, 1<<20)
		if err != nil {
			t.Fatal(err)
		}
		if i > 0 && before != &f.Bytes()[0] {
			t.Error("other memory than before")
		}
		before = &f.Bytes()[0]
		if err := ep.Free(f); err != nil {
			t.Fatal(err)
		}
	}
}
