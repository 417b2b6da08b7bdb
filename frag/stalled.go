package frag

// A fragment has made progress if more than 1/growsBy of its buffer was filled since Stalled last
// recorded progress of this fragment.
const growsBy = 64

// Stalled returns the total size, in bytes, of the buffers of fragments that have made no progress
// after the time "since". The result "before" of Stalled counts only the fragments whose ids are
// lower than the id "next". The caller calls Stalled periodically, with the current time "now" and
// an earlier time "since". When Stalled examines a fragment for the first time, the fragment counts
// as having made progress. The times "now" and "since" are above 0, and have the same unit, which
// the caller chooses.
func (a *Assembler) Stalled(now, since int64, next uint32) (all, before int64) {
	for _, m := range a.slots {
		switch {
		case m == nil:
		case m.grownAt == 0 || m.arrivedBytes > m.grownBytes+m.capBytes()/growsBy:
			m.grownAt, m.grownBytes = now, m.arrivedBytes
		case m.grownAt <= since:
			all += m.capBytes()
			if int32(m.fragID-next) < 0 {
				before += m.capBytes()
			}
		}
	}
	return all, before
}

// HasReserve reports whether the memory reserve of BytesMax is at present assigned to a fragment of
// this Assembler's peer.
func (a *Assembler) HasReserve() bool {
	f := a.pool.favourite
	return f != nil && a.find(f.fragID) == f
}
