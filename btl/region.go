package btl

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/slots"
)

// Handle names an exposed region on the wire: opaque, random in its upper part. Tell it to the
// peers that shall write there.
type Handle uint64

// Region is memory of this side that peers may access under its Handle.
type Region struct {
	m      *Module
	mem    []byte
	handle Handle
	rights Rights
	open   bool
	only   *Endpoint   // that alone may use it; nil: all may. Its tag may still change
	get    *operation  // whose answer goes there, of what is exposed for that alone
	reads  []*Fragment // answers to gets that have not left, or not ended if they are gathered
}

// regionSlotBits is the part of a Handle that is an index; the rest is random.
const regionSlotBits = 17

// getRegionsMax bounds the regions that are exposed for answers to gets alone, beside those of the
// owner.
const getRegionsMax = 4096

// regions is the memory that peers reach.
type regions struct {
	exposed slots.Table[*Region]
	users   int // those that the owner has exposed
	most    int
}

func (r *regions) init(exposedMax int) {
	r.exposed.Init(regionSlotBits, exposedMax+getRegionsMax)
	r.most = exposedMax
}

// check looks at the exposed regions.
func (r *regions) check(m *Module) error {
	for slot, e := range r.exposed.Values() {
		if e == nil {
			continue
		}
		if got, _ := r.exposed.Get(uint64(e.handle)); e.m != m || got != e ||
			e.open == (e.get != nil) {
			return fmt.Errorf("region %d has the handle %#x", slot, e.handle)
		}
	}
	if err := r.exposed.Check(); err != nil {
		return fmt.Errorf("regions: %w", err)
	}
	return nil
}

// Expose makes mem a region that all peers may access as its rights say: see RemoteWrite and the
// others. They do so from Progress, without any callback but for notices, until Close. While a put
// of several packets is under way, and if it fails, its range may hold bytes of before, bytes of
// the put, and zeros. An error is ErrAgain when RegionsMax are exposed.
func (m *Module) Expose(mem []byte, rights Rights) (*Region, error) {
	r := new(Region)
	if err := m.ExposeAs(r, mem, rights, nil); err != nil {
		return nil, err
	}
	return r, nil
}

// ExposeAs is Expose in a Region of the caller's, new or closed, so that nothing is allocated; and
// if only is not nil, for that peer alone. Further errors: ErrState if r is exposed, ErrEndpoint,
// ErrConfig for rights that there are not.
func (m *Module) ExposeAs(r *Region, mem []byte, rights Rights, only *Endpoint) error {
	t := &m.regions
	switch {
	case m.closed:
		return ErrClosed
	case r.open:
		return fmt.Errorf("%w: the region is exposed", ErrState)
	case only != nil && only.m != m:
		return ErrEndpoint
	case rights&^RemoteAll != 0:
		return fmt.Errorf("%w: rights %#x, of which %#x are none", ErrConfig, rights, rights&^RemoteAll)
	case t.users >= t.most || t.exposed.Full():
		return fmt.Errorf("%w: %d regions are exposed", ErrAgain, t.users)
	}
	r.m, r.mem, r.rights, r.open, r.only = m, mem, rights, true, only
	handle, _ := t.exposed.Add(m.random(), r)
	r.handle = Handle(handle)
	t.users++
	return nil
}

// Handle is the region's name for peers. It is another one each time that it is exposed.
func (r *Region) Handle() Handle { return r.handle }

// Bytes is the exposed memory.
func (r *Region) Bytes() []byte { return r.mem }

// Close withdraws the region: when it returns nothing reads or writes there any more. What arrives
// from now on is refused, and what is under way ends with ErrRemoteAccess at the peers. Further
// calls do nothing.
func (r *Region) Close() {
	if !r.open {
		return
	}
	r.open = false
	r.m.stir()
	r.m.regions.users--
	r.m.regions.exposed.Remove(uint64(r.handle))
	r.endReads()
}

// reach returns the region of a handle from the wire if a peer may do there what it needs to do
// with n bytes at an offset; else the reason why not, that of a Nack.
func (r *regions) reach(ep *Endpoint, h Handle, offset uint64, n int, need Rights) (
	*Region, uint8,
) {
	to, ok := r.exposed.Get(uint64(h))
	switch {
	case !ok || to.only != nil && to.only != ep:
		return nil, frag.NackAccess
	case to.rights&need != need:
		return nil, frag.NackRight
	case offset > uint64(len(to.mem)) || uint64(n) > uint64(len(to.mem))-offset:
		return nil, frag.NackBounds
	}
	return to, 0
}

// acceptPut writes a packet of a put into its region, or refuses it for good.
func (m *Module) acceptPut(in *arrival) {
	if m.writeInto(in, in.payload, RemoteWrite) {
		m.accepted(in.ep, &in.Header)
		m.putCame(in.ep, &in.Header)
		m.checkBye(in.ep)
	}
}
