package peer

import (
	"gobtl/btl/internal/payload"
)

// gathers reports whether the fabric reads bytes of a fragment's payload in place, without a copy,
// and registers the memory of the payload if registration is cheap.
func (ds *Descriptors) gathers(f *Fragment) bool {
	if f.hasSeg || f.size < payload.GatherBytesMin {
		return false
	}
	return ds.Payloads.Gather(&f.Data, f.large)
}

// mayGatherAnswers reports whether the fabric may gather the payload of answers to a peer's gets
// from the exposed region. mayGatherAnswers returns true if the fabric reads a packet's payload
// before it accepts the packet. Over a reliable fabric, mayGatherAnswers returns false.
func mayGatherAnswers(ep *Endpoint) bool {
	return !ep.ID.Counted && ep.all.Port.Data.Caps().InjectBytes >= ep.all.Port.Data.Caps().MTUBytes
}
