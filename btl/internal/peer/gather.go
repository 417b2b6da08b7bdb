package peer

import "gobtl/btl/internal/payload"

// The method "gathers" reports whether the fabric reads bytes of a fragment's payload in place,
// without a copy. If registration is cheap, the method "gathers" first registers the memory of the
// payload.
func (ds *Descriptors) gathers(f *Fragment) bool {
	if f.hasSeg || f.size < payload.GatherBytesMin {
		return false
	}
	return ds.Payloads.Gather(&f.Data, f.large)
}

// mayGatherAnswers reports whether the fabric is allowed to gather the payload of answers to a
// peer's gets directly from the exposed region. Gathering from the region is allowed if the fabric
// reads a packet's payload before the call that posts the packet returns. Over a reliable fabric,
// the payload of answers is always copied.
func mayGatherAnswers(ep *Endpoint) bool {
	return !ep.ID.Counted && ep.All.Port.Data.Caps.InjectBytes >= ep.All.Port.Data.Caps.MTUBytes
}
