package btl

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/slots"
)

// Handle names an exposed region on the wire: opaque, random in its upper part. Tell it to the
// peers that shall write there.
type Handle uint64

// Rights say what peers may do with a region.
type Rights uint8

// RemoteWrite lets peers put into the region.
const RemoteWrite Rights = 1 << 0

// Region is memory of this side that peers may access under its Handle.
type Region struct {
	m      *Module
	mem    []byte
	handle Handle
	rights Rights
}

// regionSlotBits is the part of a Handle that is an index; the rest is random.
const regionSlotBits = 16

// regions is the memory that others reach without a copy: what peers may write into, and what the
// fabric reads for fragments on their way.
type regions struct {
	exposed slots.Table[*Region]
	cache   registrationCache
	own     int // registered for single fragments under way
}

func (r *regions) init(dom fabric.Domain, exposedMax, keptMax int) {
	r.exposed.Init(regionSlotBits, exposedMax)
	r.cache.init(dom, keptMax)
}

// check looks at the exposed regions and the cache of registrations.
func (r *regions) check(m *Module, own int) error {
	for slot, e := range r.exposed.Values() {
		if e == nil {
			continue
		}
		if got, _ := r.exposed.Get(uint64(e.handle)); e.m != m || got != e {
			return fmt.Errorf("region %d has the handle %#x", slot, e.handle)
		}
	}
	if err := r.exposed.Check(); err != nil {
		return fmt.Errorf("regions: %w", err)
	}
	if own != r.own {
		return fmt.Errorf("%d regions of fragments under way, %d counted", own, r.own)
	}
	return r.cache.check()
}

// Expose makes mem a region that peers may access by puts. Peers write into it from Progress,
// without any callback, until Close. An error is ErrAgain when RegionsMax are exposed.
func (m *Module) Expose(mem []byte, rights Rights) (*Region, error) {
	if m.closed {
		return nil, ErrClosed
	}
	t := &m.regions.exposed
	if t.Full() {
		return nil, fmt.Errorf("%w: %d regions are exposed", ErrAgain, t.Len())
	}
	r := &Region{m: m, mem: mem, rights: rights}
	handle, _ := t.Add(m.random(), r)
	r.handle = Handle(handle)
	return r, nil
}

// Handle is the region's name for peers.
func (r *Region) Handle() Handle { return r.handle }

// Bytes is the exposed memory.
func (r *Region) Bytes() []byte { return r.mem }

// Close withdraws the region: puts that arrive from now on are refused.
func (r *Region) Close() { r.m.regions.exposed.Remove(uint64(r.handle)) }

// target returns the n bytes at offset of the region named by a handle from the wire; false if
// there is no such region, they are not inside it, or it may not be written.
func (r *regions) target(h Handle, offset uint64, n int) ([]byte, bool) {
	to, ok := r.exposed.Get(uint64(h))
	if !ok || to.rights&RemoteWrite == 0 ||
		offset > uint64(len(to.mem)) || uint64(n) > uint64(len(to.mem))-offset {
		return nil, false
	}
	return to.mem[offset:][:n], true
}

// acceptPut writes a packet of a put into its region, or refuses it for good.
func (m *Module) acceptPut(in *arrival) {
	ep, h, payload := in.ep, &in.Header, in.payload
	mem, ok := m.regions.target(Handle(h.Handle), h.PutOffset, len(payload))
	if !ok {
		m.drop(CntDropAccess)
		m.refuse(in, frag.NackAccess, 0)
		return
	}
	copy(mem, payload)
	m.stats.counters[CntRecvPayloadBytes] += uint64(len(payload))
	m.accepted(ep, h)
	m.checkBye(ep)
}
