package btl

import (
	"errors"

	"gobtl/btl/internal/port"
	"gobtl/btl/internal/regcache"
	"gobtl/fabric"
)

// Registration keeps memory registered with the fabric, so that large fragments prepared from it
// are gathered by the network and not copied, where the provider can do that. Its Close must not be
// called while a fragment from the memory is under way.
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

// gathers says whether the payload of a fragment is to be read by the fabric where it lies, and not
// copied. Memory that is not registered is registered for as long as the fragment is under way,
// where that costs next to nothing.
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

// mayGatherAnswers says whether the answers to a peer's gets may be gathered from the region that
// they read: where a packet was read when the fabric has taken it, so that Region.Close need only
// copy what may have to be sent, or sent again. On a counted link a packet is never built anew.
func (m *Module) mayGatherAnswers(ep *Endpoint) bool {
	return !ep.counted && m.port.Data.Caps().InjectBytes >= m.port.Data.Caps().MTUBytes
}

// takeAlong copies what is in flight of the answers that are gathered from a region, which is
// withdrawn, to the packets' own buffers: from here on nothing of it is read.
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

// gatherBytesMin is the size from which on copying a fragment costs more than to have it gathered,
// and its sender told when it is acknowledged.
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
		// The region is known; nothing can be done about a provider that does not let go of it.
		if f.vec != nil {
			m.dropPieces(f)
		} else {
			_ = m.port.Dom.DeregisterRegion(f.gather)
		}
	}
	f.gather = 0
	m.frags.endOwnRegion(f)
}
