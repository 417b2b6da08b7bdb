// Package recent has a set that remembers a bounded number of the values that were added to it most
// recently.
//
//	Add(v) --> [ v | ... | oldest ] --> forgotten when the set is full
//
// Three things to know:
//   - The zero value of a Set is empty and ready for use. A Set takes memory only for values that
//     were added.
//   - The values are numbered from 0 in the order in which they were added. Oldest, Added and At
//     let a caller go through the values that it has not seen yet.
//   - A Set is not safe for concurrent use.
//
// Start reading at Set.Add.
package recent

// Set is a set of the values that were added most recently.
type Set struct {
	known map[uint64]bool
	order []uint64 // circular buffer: value number i is at index i modulo the size of a full set
	added uint64
}

// Has reports whether the set contains a value.
func (s *Set) Has(v uint64) bool { return s.known != nil && s.known[v] }

// Add adds a value to the set. If the set already has as many values as the argument "most" says,
// the new value replaces the oldest one. All calls of Add for a set must have the same argument
// "most", which is at least 1. Add returns false if the set already contained the value, and
// otherwise true.
func (s *Set) Add(v uint64, most int) bool {
	if s.known[v] {
		return false
	}
	if s.known == nil {
		s.known = make(map[uint64]bool)
	}
	if len(s.order) < most {
		s.order = append(s.order, v)
	} else {
		place := &s.order[s.added%uint64(most)]
		delete(s.known, *place)
		*place = v
	}
	s.known[v] = true
	s.added++
	return true
}

// Len returns the number of values in the set.
func (s *Set) Len() int { return len(s.known) }

// Added returns the number of values that were added so far.
func (s *Set) Added() uint64 { return s.added }

// Oldest returns the number of the oldest value in the set.
func (s *Set) Oldest() uint64 { return s.added - uint64(len(s.order)) }

// At returns the value with the given number, which must be from Oldest to Added-1.
func (s *Set) At(number uint64) uint64 { return s.order[number%uint64(len(s.order))] }
