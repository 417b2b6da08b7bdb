package frag

// growsBy is the divisor of a fragment's memory that gives the least growth which counts as
// progress. A single packet now and then is too little.
const growsBy = 64

// Stalled returns the memory of the fragments that have made no progress since the instant since.
// The caller calls Stalled from time to time, with the current instant and an earlier one. A
// fragment that Stalled sees for the first time counts as having made progress. Instants are above
// 0, in any unit.
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

// HasReserve reports whether the peer has the only fragment that may grow into the reserve. Only
// the peer itself can delay the fragment that may grow into the reserve.
func (a *Assembler) HasReserve() bool {
	f := a.pool.favourite
	return f != nil && a.find(f.fragID) == f
}

// Short reports whether a permitted fragment may find no memory because of the memory of other
// fragments. If Short is false, the pool refuses a fragment only because of the peer's own share or
// the peer's own table slots.
func (p *Pool) Short() bool {
	return p.activeBytes > p.cfg.BytesMax-2*int64(p.cfg.FragBytesMax)
}
