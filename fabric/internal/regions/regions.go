// Package regions implements the table of a fabric.Domain's memory regions, for several providers.
// A Region consists of the index of its table entry and of a generation number, which distinguishes
// it from earlier regions in the same entry.
//
//	31         20                0
//	+===========+================+
//	| generation|  index, from 1 |
//	+===========+================+
//
// A Table belongs to one goroutine.
package regions

import (
	"fmt"

	"gobtl/fabric"
)

const (
	indexBits      = 20
	generationBits = 32 - indexBits
	most           = 1<<indexBits - 1 // regions of a table
)

// Table holds the registered memory regions. A zero Table is empty.
type Table struct {
	slots []slot // by index; entry 0 is unused
	free  []uint32
}

type slot struct {
	mem        []byte // nil while the slot is free
	generation uint32
}

// Add registers a memory region. The error of Add wraps fabric.ErrBadConfig for empty memory, and
// fabric.ErrAgain for a full table.
func (t *Table) Add(mem []byte) (fabric.Region, error) {
	if len(mem) == 0 {
		return 0, fmt.Errorf("%w: a region of no bytes", fabric.ErrBadConfig)
	}
	if len(t.free) == 0 {
		n := max(len(t.slots), 1)
		if n > most {
			return 0, fmt.Errorf("%w: %d regions", fabric.ErrAgain, most)
		}
		t.slots = append(t.slots, make([]slot, n+1-len(t.slots))...)
		t.free = append(t.free, uint32(n))
	}
	i := t.free[len(t.free)-1]
	t.free = t.free[:len(t.free)-1]
	s := &t.slots[i]
	s.mem = mem
	return fabric.Region(s.generation<<indexBits | i), nil
}

// Get returns the memory of a region, or nil if the region is not registered.
func (t *Table) Get(r fabric.Region) []byte {
	i := uint32(r) & most
	if uint64(i) >= uint64(len(t.slots)) {
		return nil
	}
	s := &t.slots[i]
	if s.generation != uint32(r)>>indexBits {
		return nil
	}
	return s.mem
}

// Remove deregisters a region, and reports whether it was registered.
func (t *Table) Remove(r fabric.Region) bool {
	if t.Get(r) == nil {
		return false
	}
	i := uint32(r) & most
	s := &t.slots[i]
	s.mem = nil
	s.generation = (s.generation + 1) & (1<<generationBits - 1)
	t.free = append(t.free, i)
	return true
}

// Gather returns the bytes of a region to which a send refers, or nil if the region is not
// registered or does not contain all these bytes.
func (t *Table) Gather(s *fabric.Send) []byte {
	return Part(t.Get(s.Region), s.RegionOff, uint64(s.RegionLen))
}

// Part returns the sizeBytes bytes at the offset "off" of a region's memory, or nil if the memory
// is nil or does not contain all these bytes.
func Part(mem []byte, off, sizeBytes uint64) []byte {
	if mem == nil || off > uint64(len(mem)) || sizeBytes > uint64(len(mem))-off {
		return nil
	}
	return mem[off : off+sizeBytes]
}
