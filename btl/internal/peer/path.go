package peer

import (
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

const (
	// A fragment that is larger than heldBytes waits until the first path MTU probe is answered (first
	// Pong) or counts as lost.
	heldBytes = 64 << 10
)

// Path describes the path to a peer (see btl.Path).
type Path struct {
	reliability.PathState
	MTUBytes, MTUBytesMost int
	MTUWhy                 string
	Holes                  int
}

// PathState returns the measured properties of the path to the peer.
func (ep *Endpoint) PathState() Path {
	return Path{
		PathState: ep.Snd.Path(), MTUBytes: ep.MTU(), MTUBytesMost: int(ep.mtuMost),
		Holes: ep.Path.Holes(), MTUWhy: ep.Path.Why(ep.ID.Counted),
	}
}

// The method "holds" reports whether a large fragment must wait until the first path MTU probe is
// answered or counts as lost.
func (ep *Endpoint) holds(f *Fragment) bool {
	return f.size > heldBytes && f.cursor == 0 && !f.isBye() && !ep.ID.Counted &&
		ep.Path.FirstProbePending()
}

// tooLarge reports whether a packet of sizeBytes must be sent in several Parts (slices that fit
// into datagrams).
func (ep *Endpoint) tooLarge(sizeBytes int) bool { return sizeBytes > ep.MTU() && !ep.ID.Counted }

// partsRoom returns the number of packets of sizeBytes that can be sent in Parts (slices that fit
// into datagrams) at present.
func (wr *Writer) partsRoom(ep *Endpoint, sizeBytes int) int {
	count, _ := frag.PartsOf(sizeBytes, ep.MTU())
	return min(wr.Port.FreeParts(), wr.Port.Data.Room()) / count
}

// PartsIn returns the frag.Parts of an endpoint, which reassembles packets from received Parts
// (slices). The first call of PartsIn allocates an empty frag.Parts, whose memory comes from the
// pool.
func (ep *Endpoint) PartsIn(pool *frag.PartPool) *frag.Parts {
	if ep.Parts == nil {
		ep.Parts = new(frag.Parts)
		ep.Parts.Init(pool)
	}
	return ep.Parts
}

// SweepParts drops the Parts (slices) of packets that have already been received as a whole.
func (ep *Endpoint) SweepParts() {
	if ep.Parts != nil && ep.Parts.Active() > 0 {
		ep.Parts.Sweep(func(n seq.Num) bool {
			return ep.Rcv.Check(n) == reliability.Accept
		})
	}
}
