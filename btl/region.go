package btl

import (
	"fmt"

	"gobtl/frag"
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

// regionTable is the module's exposed regions by slot.
type regionTable struct {
	slots []*Region
	free  []uint32
	max   int
}

func (t *regionTable) init(maxRegions int) { t.max = maxRegions }

// Expose makes mem a region that peers may access by puts. Peers write into it from Progress,
// without any callback, until Close. An error is ErrAgain when RegionsMax are exposed.
func (m *Module) Expose(mem []byte, rights Rights) (*Region, error) {
	if m.closed {
		return nil, ErrClosed
	}
	t := &m.regions
	var slot uint32
	if n := len(t.free); n > 0 {
		slot = t.free[n-1]
		t.free = t.free[:n-1]
	} else if len(t.slots) < t.max {
		slot = uint32(len(t.slots))
		t.slots = append(t.slots, nil)
	} else {
		return nil, fmt.Errorf("%w: %d regions are exposed", ErrAgain, t.max)
	}
	r := &Region{m: m, mem: mem, rights: rights}
	r.handle = Handle(m.random()<<regionSlotBits | uint64(slot))
	t.slots[slot] = r
	return r, nil
}

// Handle is the region's name for peers.
func (r *Region) Handle() Handle { return r.handle }

// Bytes is the exposed memory.
func (r *Region) Bytes() []byte { return r.mem }

// Close withdraws the region: puts that arrive from now on are refused.
func (r *Region) Close() {
	t := &r.m.regions
	slot := uint32(r.handle & (1<<regionSlotBits - 1))
	if t.slots[slot] == r {
		t.slots[slot] = nil
		t.free = append(t.free, slot)
	}
}

// target returns the n bytes at offset of the region named by a handle from the wire; false if
// there is no such region, they are not inside it, or it may not be written.
func (t *regionTable) target(h Handle, offset uint64, n int) ([]byte, bool) {
	slot := uint64(h) & (1<<regionSlotBits - 1)
	if slot >= uint64(len(t.slots)) {
		return nil, false
	}
	r := t.slots[slot]
	if r == nil || r.handle != h || r.rights&RemoteWrite == 0 ||
		offset > uint64(len(r.mem)) || uint64(n) > uint64(len(r.mem))-offset {
		return nil, false
	}
	return r.mem[offset:][:n], true
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
