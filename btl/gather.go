package btl

import (
	"errors"

	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/regcache"
	"gobtl/fabric"
)

// Registration keeps memory registered with the fabric. A provider that supports gathering reads
// the payload of large fragments directly from registered memory, without a copy.
// Registration.Close must not be called while a fragment in the memory is being sent.
type Registration = regcache.Registration

// RegisterMemory registers mem with the fabric, or shares an existing registration that covers mem.
// Go memory is pinned until Registration.Close. RegisterMemory returns fabric.ErrNotSupported if
// the provider cannot register memory. Fragments from unregistered memory are copied.
func (m *Module) RegisterMemory(mem []byte) (*Registration, error) {
	if m.closed {
		return nil, ErrClosed
	}
	if len(mem) == 0 {
		return nil, errors.Join(ErrConfig, errors.New("btl: registration of no memory"))
	}
	return m.frags.payloads.Register(mem)
}

// gathers reports whether the fabric reads bytes of a fragment's payload in place, without a copy,
// and registers the memory of the payload if registration is cheap.
func (m *Module) gathers(f *Fragment) bool {
	if f.hasSeg || f.size < payload.GatherBytesMin {
		return false
	}
	return m.frags.payloads.Gather(&f.data, f.large)
}

// mayGatherAnswers reports whether the fabric may gather the payload of answers to a peer's gets
// from the exposed region. mayGatherAnswers returns true if the fabric reads a packet's payload
// before it accepts the packet. On counted links mayGatherAnswers returns false.
func mayGatherAnswers(ep *Endpoint) bool {
	return !ep.id.Counted && ep.m.port.Data.Caps().InjectBytes >= ep.m.port.Data.Caps().MTUBytes
}

// takeAlong prepares the close of a region. The payload of answers in flight, which the fabric
// gathers from the region, is copied into the packets' send buffers.
func (r *Region) takeAlong() {
	m := r.m
	for i := range m.segs {
		s := &m.segs[i]
		if s.gatherLen == 0 || !s.frag.answer || !s.frag.op.Reads(&r.is) {
			continue
		}
		b := m.port.Arena.Bytes(fabric.Buf(i))[s.bytes-uint32(s.gatherLen) : s.bytes]
		copy(b, s.frag.data.Gathered(s.gatherAt, s.gatherLen))
		s.gatherLen = 0
	}
	for _, c := range [...]*port.Channel{&m.port.Command, &m.port.Data} {
		for i := range c.Batch() {
			if p := &c.Batch()[i]; p.Region != 0 && m.segs[p.Buf].gatherLen == 0 {
				m.segs[p.Buf].describe(segToken(p.Buf), p)
			}
		}
	}
}
