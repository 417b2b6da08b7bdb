package sched

// UrgentMax is the maximum number of urgent fragments of an endpoint that have not ended.
const UrgentMax = 8

// Urgent counts an endpoint's urgent fragments that have not ended. Urgent fragments are few, so
// that they delay the endpoint's other fragments and ACKs only briefly.
type Urgent struct{ count uint8 }

// Take reports whether another urgent fragment may be sent now, and counts it. The arguments used
// and depth are the number of packets in the queue of the channel, and the length of the queue. At
// most half of the queue is for urgent fragments.
func (u *Urgent) Take(used, depth int) bool {
	if u.count >= UrgentMax || 2*used >= depth {
		return false
	}
	u.count++
	return true
}

// Give is called when a fragment has ended. If Take has counted the fragment, Give subtracts it
// from the count.
func (u *Urgent) Give(counted bool) {
	if counted {
		u.count--
	}
}

// Len is the number of urgent fragments that have not ended.
func (u *Urgent) Len() int { return int(u.count) }
