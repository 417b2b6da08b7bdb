// Package slots stores values in a table, and gives each value a handle, which the program can
// safely send to untrusted peers. The lower bits of a handle are the index of its value, and the
// upper bits are random.
//
//	63                         bits          0
//	+===========================+============+
//	|          random           |    slot    |
//	+===========================+============+
//
// The look-up of a handle takes one array access and one comparison. After the removal of a value,
// no value matches its handle, and peers cannot guess the handles of values. A Table belongs to one
// goroutine.
package slots

import "fmt"

// Table maps handles to values. Init makes a zero Table ready for use.
type Table[T any] struct {
	handles []uint64 // the handle of a free slot has another index
	values  []T      // a free place has the zero value
	free    []uint32
	bits    uint
	max     int
}

// The function "none" returns the number that the table stores in place of a handle for a free
// slot. The lower bits of the number for a free slot differ from the slot's index, so that the
// look-up of a handle never finds a free slot.
func none(slot uint32) uint64 { return ^uint64(slot) }

// Init makes t an empty table, with a limit of placesMax values. The argument "bits" of Init, from
// 1 to 31, is the number of lower bits of a handle that hold the index of the value. If placesMax
// exceeds 1<<bits, the limit is 1<<bits values.
func (t *Table[T]) Init(bits uint, placesMax int) {
	*t = Table[T]{bits: bits, max: min(placesMax, 1<<bits)}
}

// Add stores a value under a new handle. The argument "random" of Add supplies the random bits of
// the handle. The result "ok" of Add is false if the table is full, and otherwise true.
func (t *Table[T]) Add(random uint64, v T) (handle uint64, ok bool) {
	var slot uint32
	switch n := len(t.free); {
	case n > 0:
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	case len(t.values) < t.max:
		slot = uint32(len(t.values))
		t.handles, t.values = append(t.handles, 0), append(t.values, v)
	default:
		return 0, false
	}
	handle = random<<t.bits | uint64(slot)
	t.handles[slot], t.values[slot] = handle, v
	return handle, true
}

// Get returns the value with the given handle. The result "ok" of Get is true if a value has the
// given handle, and otherwise false. The argument of Get may be any number, for example a number
// that an untrusted peer has sent.
func (t *Table[T]) Get(handle uint64) (v T, ok bool) {
	slot := handle & (1<<t.bits - 1)
	if slot >= uint64(len(t.handles)) || t.handles[slot] != handle {
		return v, false
	}
	return t.values[slot], true
}

// Remove removes the value with the given handle, and reports whether a value had this handle.
func (t *Table[T]) Remove(handle uint64) bool {
	if _, ok := t.Get(handle); !ok {
		return false
	}
	var zero T
	slot := t.Slot(handle)
	t.handles[slot], t.values[slot] = none(slot), zero
	t.free = append(t.free, slot)
	return true
}

// Replace replaces the value with the given handle. If no value has this handle, Replace does
// nothing.
func (t *Table[T]) Replace(handle uint64, v T) {
	if _, ok := t.Get(handle); ok {
		t.values[t.Slot(handle)] = v
	}
}

// Rename replaces a value's handle by a new one with the same index and new random bits, and
// returns the new handle.
func (t *Table[T]) Rename(handle, random uint64) uint64 {
	if _, ok := t.Get(handle); !ok {
		return handle
	}
	slot := t.Slot(handle)
	t.handles[slot] = random<<t.bits | uint64(slot)
	return t.handles[slot]
}

// Slot returns the table index that is part of the handle.
func (t *Table[T]) Slot(handle uint64) uint32 { return uint32(handle & (1<<t.bits - 1)) }

// At returns the value at the given table index, or the zero value if the slot at this index is
// free.
func (t *Table[T]) At(slot uint32) T { return t.values[slot] }

// Values returns a slice of all values, in which free slots have the zero value. The slice that
// Values returns belongs to the table, and is valid until the next Add.
func (t *Table[T]) Values() []T { return t.values }

// Len is the number of values in the table.
func (t *Table[T]) Len() int { return len(t.values) - len(t.free) }

// Full reports whether the table is full, so that a call of Add would fail.
func (t *Table[T]) Full() bool { return len(t.free) == 0 && len(t.values) >= t.max }

// Check returns an error if an invariant of the table is violated. If all invariants hold, Check
// returns nil and allocates no memory.
func (t *Table[T]) Check() error {
	if len(t.handles) != len(t.values) || len(t.values) > t.max {
		return fmt.Errorf("slots: %d handles, %d values, at most %d", len(t.handles), len(t.values),
			t.max)
	}
	free := 0
	for slot, h := range t.handles {
		if h == none(uint32(slot)) {
			free++
		} else if t.Slot(h) != uint32(slot) {
			return fmt.Errorf("slots: handle %#x at place %d", h, slot)
		}
	}
	if free != len(t.free) {
		return fmt.Errorf("slots: %d places are free, %d listed", free, len(t.free))
	}
	for _, slot := range t.free {
		if int(slot) >= len(t.handles) || t.handles[slot] != none(slot) {
			return fmt.Errorf("slots: place %d is listed as free and is not", slot)
		}
	}
	return nil
}
