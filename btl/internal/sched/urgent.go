package sched

// UrgentMax is the maximum number of urgent fragments of an endpoint that have not ended.
const UrgentMax = 8

// Urgent counts an endpoint's urgent fragments that have not ended. Urgent fragments are few, so
// that they delay the endpoint's other fragments and ACKs only briefly.
type Urgent struct{ count uint8 }

// Take reports whether another urgent fragment may be sent now, and counts a fragment that may be
// sent. The argument "used" of Take is the number of packets in the channel's send queue, and
// "depth" is the capacity of this queue. Urgent fragments may fill at most half of the channel's
// send queue.
func (u *Urgent) Take(used, depth int) bool {
	if u.count >= UrgentMax || 2*used >= depth {
		return false
	}
	u.count++
	return true
}

// Give is called when a fragment has ended. Give decrements the count if Take has counted the
// fragment.
func (u *Urgent) Give(counted bool) {
	if counted {
		u.count--
	}
}

// Len is the number of urgent fragments that have not ended.
func (u *Urgent) Len() int { return int(u.count) }
