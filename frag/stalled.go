package frag

// A fragment has made progress if the new bytes that have arrived are more than its memory divided
// by growsBy.
const growsBy = 64

// Stalled returns the memory, in bytes, of the fragments that have made no progress later than at
// the time given by the argument since. The caller calls Stalled periodically, with the current
// time and an earlier time. A fragment that Stalled examines for the first time counts as having
// made progress. Both times are above 0, in any unit.
func (a *Assembler) Stalled(now, since int64) (bytes int64) {
	for _, m := range a.slots {
		switch {
		case m == nil:
		case m.grownAt == 0 || m.arrivedBytes > m.grownBytes+m.capBytes()/growsBy:
			m.grownAt, m.grownBytes = now, m.arrivedBytes
		case m.grownAt <= since:
			bytes += m.capBytes()
		}
	}
	return bytes
}

// HasReserve reports whether one of the peer's fragments is the only one that may grow into the
// memory reserve.
func (a *Assembler) HasReserve() bool {
	f := a.pool.favourite
	return f != nil && a.find(f.fragID) == f
}

// Short reports whether so much memory is in use that a fragment of permitted size may get no
// memory. If Short returns false, the pool refuses a fragment for no reason other than the limits
// of the fragment's own peer.
func (p *Pool) Short() bool {
	return p.activeBytes > p.cfg.BytesMax-2*int64(p.cfg.FragBytesMax)
}
