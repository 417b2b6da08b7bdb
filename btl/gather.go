package btl

import (
	"errors"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/regcache"
	"gobtl/fabric"
)

// Registration keeps memory registered with the fabric, so that a provider that can gathers large
// fragments from it instead of copying. Its Close must not be called while a fragment from the
// memory is under way.
type Registration = regcache.Registration

// RegisterMemory registers mem with the fabric, or shares a registration that covers it. Go memory
// stays pinned until Close. Without support of the provider it returns fabric.ErrNotSupported, and
// fragments from this memory are copied.
func (m *Module) RegisterMemory(mem []byte) (*Registration, error) {
	if m.closed {
		return nil, ErrClosed
	}
	if len(mem) == 0 {
		return nil, errors.Join(ErrConfig, errors.New("btl: registration of no memory"))
	}
	return m.frags.registered.Register(mem)
}

// gathers says whether the fabric reads a fragment's payload in place, without a copy. Where
// registration is cheap, unregistered memory is registered while the fragment is under way.
func (m *Module) gathers(f *Fragment) bool {
	if f.hasSeg || f.size < gatherBytesMin {
		return false
	}
	if f.vec != nil {
		return m.gathersPieces(f)
	}
	if f.gather != 0 || !m.port.Data.Caps().FreeRegions {
		return f.gather != 0
	}
	region, err := m.port.Dom.RegisterRegion(f.mem)
	if err != nil {
		return false // it is copied, then
	}
	f.gather, f.gatherOff = region, 0
	m.frags.noteOwnRegion(f)
	return true
}

// mayGatherAnswers says whether the fabric may gather answers to a peer's gets from the region. It
// may if it has read a packet's payload by the time that it accepts the packet: then Region.Close
// need only copy the payload of packets that may be sent (again). On a counted link a packet is
// never rebuilt.
func (m *Module) mayGatherAnswers(ep *Endpoint) bool {
	return !ep.id.Counted && m.port.Data.Caps().InjectBytes >= m.port.Data.Caps().MTUBytes
}

// takeAlong copies the payload of in-flight answers, gathered from a region that closes, into the
// packets' own buffers: from then on the region is not read.
func (r *Region) takeAlong() {
	m := r.m
	for i := range m.segs {
		s := &m.segs[i]
		if s.gatherLen == 0 || !s.frag.answer || !s.frag.op.Reads(&r.is) {
			continue
		}
		b := m.port.Arena.Bytes(fabric.Buf(i))[s.bytes-uint32(s.gatherLen) : s.bytes]
		copy(b, s.frag.gathered(s.gatherAt, s.gatherLen))
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

// gatherBytesMin is the fragment size from which on a copy costs more than to gather, and to notify
// the sender when the fragment is acknowledged.
const gatherBytesMin = 4 << 10

// dropOwn ends the registration of a fragment's memory, if one was made for it.
func (m *Module) dropOwn(f *Fragment) {
	if f.ownRegion {
		m.dropRegion(f)
	}
}

// dropRegion ends the registration that was made for one fragment.
func (m *Module) dropRegion(f *Fragment) {
	if !m.closed { // else the fabric is gone, with all its regions
		// The region is known, so an error is the provider's fault, and cannot be handled here.
		if f.vec != nil {
			m.dropPieces(f)
		} else {
			_ = m.port.Dom.DeregisterRegion(f.gather)
		}
	}
	f.gather = 0
	m.frags.endOwnRegion(f)
}
