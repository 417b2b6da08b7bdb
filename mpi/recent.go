package mpi

// recent are the last revokedMax communicators that were added. The zero value is ready.
type recent struct {
	known map[uint64]bool
	order []uint64 // a ring, when it is full
	next  int      // in it: the oldest one
}

// has says whether a communicator is one of them.
func (r *recent) has(context uint64) bool { return r.known[context] }

// add adds a communicator, in the place of the oldest one if there are as many as may be. It
// reports false if it is there already.
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
		delete(r.known, r.order[r.next])
		r.order[r.next] = context
		r.next = (r.next + 1) % revokedMax
	}
	r.known[context] = true
	return true
}
