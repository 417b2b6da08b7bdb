package sched

// UrgentMax is the maximum number of urgent fragments of an endpoint that have not ended.
const UrgentMax = 8

// Urgent counts an endpoint's urgent fragments that have not ended. The number of urgent fragments
// is limited, so that the endpoint's ordinary fragments and its ACKs are delayed only briefly.
type Urgent struct{ count uint8 }

// Take reports whether the limits allow one more urgent fragment at present, and counts this
// fragment. The argument "used" of Take is the number of packets in the channel's send queue, and
// the argument "depth" is the capacity of this queue. Urgent fragments are allowed to fill at most
// half of the channel's send queue.
func (u *Urgent) Take(used, depth int) bool {
	if u.count >= UrgentMax || 2*used >= depth {
		return false
	}
	u.count++
	return true
}

// Give must be called when a fragment has ended. The argument "counted" of Give says whether Take
// has counted the fragment, so that Give must decrement the count.
func (u *Urgent) Give(counted bool) {
	if counted {
		u.count--
	}
}

// Len returns the number of urgent fragments that have not ended.
func (u *Urgent) Len() int { return int(u.count) }
