//go:build linux

package udp

import (
	"fmt"

	"gobtl/fabric"
)

const (
	regionIndexBits = 20
	regionGenBits   = 32 - regionIndexBits
	maxRegions      = 1<<regionIndexBits - 1
)

// regionTable holds the registered memory regions. A Region consists of an index and a generation
// number. The index 0 means no region.
type regionTable struct {
	slots []regionSlot
	free  []uint32
}

type regionSlot struct {
	mem []byte // nil while the slot is free
	gen uint32
}

func (t *regionTable) add(mem []byte) (fabric.Region, error) {
	if len(mem) == 0 {
		return 0, badConfig("a region of no bytes")
	}
	if len(t.free) == 0 {
		n := max(len(t.slots), 1)
		if n > maxRegions {
			return 0, fmt.Errorf("%w: %d regions", fabric.ErrAgain, maxRegions)
		}
		t.slots = append(t.slots, make([]regionSlot, n+1-len(t.slots))...)
		t.free = append(t.free, uint32(n))
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[i]
	s.mem = mem
	return fabric.Region(s.gen<<regionIndexBits | i), nil
}

func (t *regionTable) get(r fabric.Region) []byte {
	i := uint32(r) & maxRegions
	if uint64(i) >= uint64(len(t.slots)) {
		return nil
	}
	s := &t.slots[i]
	if s.gen != uint32(r)>>regionIndexBits {
		return nil
	}
	return s.mem
}

func (t *regionTable) drop(r fabric.Region) bool {
	if t.get(r) == nil {
		return false
	}
	i := uint32(r) & maxRegions
	s := &t.slots[i]
	s.mem = nil
	s.gen = (s.gen + 1) & (1<<regionGenBits - 1)
	t.free = append(t.free, i)
	return true
}
