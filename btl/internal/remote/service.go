package remote

import (
	"fmt"

	"gobtl/btl/internal/share"
	"gobtl/btl/internal/spare"
	"gobtl/frag"
	"gobtl/internal/slots"
)

const regionSlotBits = 17

// getRegionsMax is the maximum number of regions that are exposed only for answers to gets. Regions
// that the application has exposed do not count towards getRegionsMax. Package share divides the
// regions for answers to gets among the peers, because a peer that answers no get could otherwise
// keep all of these regions in use until its endpoint ends.
const getRegionsMax = 4096

// Service contains the exposed regions of one module, and its operations. The caller must call Init
// before any other method.
type Service[F any] struct {
	regions slots.Table[*Region[F]]
	users   int // number of regions that the application has exposed
	gets    int // number of regions exposed for answers to gets
	most    int
	free    spare.List[Operation[F]]
}

// Init prepares a service in which the application can expose up to exposedMax regions.
func (s *Service[F]) Init(exposedMax int) {
	s.regions.Init(regionSlotBits, exposedMax+getRegionsMax)
	s.most = exposedMax
}

// Exposed returns the number of regions that the application has exposed.
func (s *Service[F]) Exposed() int { return s.users }

// MayGet reports whether the limits allow one more get of memory of peer p, which may be nil. The
// argument "sole" of MayGet says whether p is the only peer of the module.
func (s *Service[F]) MayGet(p *Peer[F], sole bool) bool {
	held := 0
	if p != nil {
		held = p.gets
	}
	return !p.Full() && share.MayHave(held, getRegionsMax-s.gets, getRegionsMax, sole)
}

// MayExpose reports whether the limit on exposed regions allows one more call of Expose.
func (s *Service[F]) MayExpose() bool { return s.users < s.most }

// Expose exposes the memory "mem" as region r, under a new handle. The caller may call Expose only
// if MayExpose returns true and region r is not exposed. If the argument "only" of Expose is not
// nil, only this peer is allowed to access the region.
func (s *Service[F]) Expose(r *Region[F], mem []byte, rights Rights, only *Peer[F], random uint64) {
	r.mem, r.rights, r.exposed, r.only, r.written = mem, rights, true, only, 0
	handle, _ := s.regions.Add(random, r)
	r.handle = Handle(handle)
	s.users++
}

// Withdraw invalidates the handle of an exposed region, so that all packets with this handle are
// refused. The caller of Withdraw must end the answers that read the region (see Region.Reader).
func (s *Service[F]) Withdraw(r *Region[F]) {
	r.exposed = false
	s.users--
	s.regions.Remove(uint64(r.handle))
}

// Reach returns the region with handle h, if peer p has the rights "need" for the n bytes at the
// given offset. If peer p does not have the rights "need", Reach returns nil and the reason for a
// Nack.
func (s *Service[F]) Reach(p *Peer[F], h Handle, offset uint64, n int, need Rights) (
	*Region[F], uint8,
) {
	to, ok := s.regions.Get(uint64(h))
	switch {
	case !ok || to.only != nil && to.only != p:
		return nil, frag.NackAccess
	case to.rights&need != need:
		return nil, frag.NackRight
	case offset > uint64(len(to.mem)) || uint64(n) > uint64(len(to.mem))-offset:
		return nil, frag.NackBounds
	}
	return to, 0
}

// take returns an Operation for fragment f, and reuses a free Operation if there is one.
func (s *Service[F]) take(f F, code frag.OpCode) *Operation[F] {
	o := s.free.Take()
	o.Fragment, o.Code = f, code
	return o
}

// Give frees an operation after End or EndAnswer.
func (s *Service[F]) Give(o *Operation[F]) {
	*o = Operation[F]{}
	s.free.Give(o)
}

// NotifyPut adds a notification to the put f. NotifyPut copies the content of the notification,
// which must have at most frag.NoticeBytesMax bytes.
func (s *Service[F]) NotifyPut(f F, tag uint8, says []byte) *Operation[F] {
	o := s.take(f, frag.OpPart)
	o.tag, o.size = tag, uint8(copy(o.body[:], says))
	return o
}

// AskGet makes a get that reads bytes of a peer's region into the memory "mem". The caller may call
// AskGet only if MayGet returns true for the peer. The get's number and the handle of the memory
// "mem" contain the same random number. Two different random numbers would not be safer, because
// the packet of the get contains both the get's number and the memory's handle.
func (s *Service[F]) AskGet(p *Peer[F], f F, mem []byte, target Handle, offset, random uint64) (
	o *Operation[F],
) {
	o = s.take(f, frag.OpGet)
	p.number(o, random>>(64-askRandomBits))
	o.into = Region[F]{mem: mem, rights: Write, only: p, get: o}
	handle, _ := s.regions.Add(random, &o.into)
	o.into.handle = Handle(handle)
	s.gets++
	p.gets++
	get := frag.Get{
		Handle: uint64(target), Offset: offset, Answer: handle, SizeBytes: uint32(len(mem)),
	}
	get.Marshal(o.body[:])
	o.size = frag.GetBytes
	return o
}

// AskAtomic makes an atomic operation on a peer's region. If Peer.Full returns true, the caller
// must not call AskAtomic for an operation that fetches the old value.
func (s *Service[F]) AskAtomic(p *Peer[F], f F, ask *frag.Atomic, random uint64) *Operation[F] {
	o := s.take(f, frag.OpAtomic)
	if ask.Fetch {
		p.number(o, random)
	}
	ask.Marshal(o.body[:])
	o.size = frag.AtomicBytes
	return o
}

// End ends an operation whose fragment has ended or was given up. After End, no packet writes to
// the operation's memory, and answers to the operation are ignored. End reports whether the end of
// the operation makes room for a new operation.
func (s *Service[F]) End(p *Peer[F], o *Operation[F]) (room bool) {
	if o.into.get != nil {
		s.regions.Remove(uint64(o.into.handle))
		o.into = Region[F]{}
		s.gets--
		p.gets--
	}
	if !o.numbered {
		return false
	}
	o.numbered = false
	if o.Code == frag.OpPart {
		p.places &^= place(o.Number)
	} else {
		p.asks.Remove(uint64(o.Number))
	}
	return true
}

// Check returns an error if the exposed regions are inconsistent, and nil otherwise.
func (s *Service[F]) Check() error {
	users, gets := 0, 0
	for slot, r := range s.regions.Values() {
		if r == nil {
			continue
		}
		got, _ := s.regions.Get(uint64(r.handle))
		if got != r || s.regions.Slot(uint64(r.handle)) != uint32(slot) || r.exposed == (r.get != nil) {
			return fmt.Errorf("remote: region %d has the handle %#x", slot, r.handle)
		}
		if r.exposed {
			users++
		} else {
			gets++
		}
		for i, o := range r.readers {
			if o.from != r || o.reader != i {
				return fmt.Errorf("remote: region %d is read by an answer to another", slot)
			}
		}
	}
	if users != s.users || gets != s.gets {
		return fmt.Errorf("remote: %d regions are exposed and %d are of gets, counted %d and %d", users,
			gets, s.users, s.gets)
	}
	return s.regions.Check()
}
