package frag

// growsBy is the part of its memory by which a fragment must grow to have gone on: a packet now and
// then is no progress.
const growsBy = 64

// Stalled is called from time to time, with the instant, and with one before it. It returns the
// memory of the fragments that have not gone on since then, as far as was looked. A fragment that
// is seen for the first time has gone on. Instants are above 0, of any unit.
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

// HasReserve says whether the peer has the one fragment that may grow into the reserve. Nothing but
// the peer holds that fragment up.
func (a *Assembler) HasReserve() bool {
	f := a.pool.favourite
	return f != nil && a.find(f.fragID) == f
}

// Short says whether some fragment that the pool takes may find no memory for what others hold.
// Until then a peer is refused for its own share, or its own places.
func (p *Pool) Short() bool {
	return p.activeBytes > p.cfg.BytesMax-2*int64(p.cfg.FragBytesMax)
}
