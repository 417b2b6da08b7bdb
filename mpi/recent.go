package mpi

// The type "recent" is a set of the revokedMax communicators that were added most recently. The
// zero value is ready for use.
type recent struct {
	known map[uint64]bool
	order []uint64 // circular buffer: communicator number i is at index i modulo revokedMax
	added uint64   // communicators added so far
}

func (r *recent) has(context uint64) bool { return r.known[context] }

// add adds a communicator to the set. If the set is full, the new communicator replaces the oldest
// one. The method "add" returns false if the set already contained the communicator, and otherwise
// true.
func (r *recent) add(context uint64) bool {
	if r.known[context] {
		return false
	}
	if r.known == nil {
		r.known = make(map[uint64]bool)
	}
	if len(r.order) < revokedMax {
		r.order = append(r.order, context)
	} else {
		place := &r.order[r.added%revokedMax]
		delete(r.known, *place)
		*place = context
	}
	r.known[context] = true
	r.added++
	return true
}

// The communicators are numbered from 0 in the order in which they were added to the set. The
// method "oldest" returns the number of the oldest communicator in the set.
func (r *recent) oldest() uint64 { return r.added - uint64(len(r.order)) }

// The method "at" returns the communicator with the given number, which must be from r.oldest() to
// r.added-1.
func (r *recent) at(number uint64) uint64 { return r.order[number%revokedMax] }
