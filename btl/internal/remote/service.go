package remote

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/slots"
)

// regionSlotBits is the part of a Handle that is an index; the rest is random.
const regionSlotBits = 17

// getRegionsMax bounds the regions that are exposed for answers to gets alone, beside those of the
// owner.
const getRegionsMax = 4096

// Service is the exposed regions of one module, and its operations. Init makes it ready.
type Service[F any] struct {
	regions slots.Table[*Region[F]]
	users   int // those that the owner has exposed
	most    int
	free    []*Operation[F]
}

// Init makes a service that exposes up to exposedMax regions, beside those of gets.
func (s *Service[F]) Init(exposedMax int) {
	s.regions.Init(regionSlotBits, exposedMax+getRegionsMax)
	s.most = exposedMax
}

// Exposed is the number of regions that the owner has exposed.
func (s *Service[F]) Exposed() int { return s.users }

// Full says whether no region can be exposed, neither by Expose nor for a get.
func (s *Service[F]) Full() bool { return s.regions.Full() }

// MayExpose says whether there is room for Expose.
func (s *Service[F]) MayExpose() bool { return s.users < s.most && !s.regions.Full() }

// Expose makes mem the region r, under a new handle; MayExpose must hold, and r not be exposed. If
// only is not nil that peer alone may use it.
func (s *Service[F]) Expose(r *Region[F], mem []byte, rights Rights, only *Peer[F], random uint64) {
	r.mem, r.rights, r.exposed, r.only = mem, rights, true, only
	handle, _ := s.regions.Add(random, r)
	r.handle = Handle(handle)
	s.users++
}

// Withdraw takes the handle of an exposed region back: from here on packets do not find it. The
// answers that read it are its owner's to end: see Region.Reader.
func (s *Service[F]) Withdraw(r *Region[F]) {
	r.exposed = false
	s.users--
	s.regions.Remove(uint64(r.handle))
}

// Reach returns the region of a handle from the wire if a peer may do there what it needs to do
// with n bytes at an offset; else the reason why not, that of a Nack.
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

// take makes an operation of a fragment.
func (s *Service[F]) take(f F, code frag.OpCode) *Operation[F] {
	var o *Operation[F]
	if n := len(s.free); n > 0 {
		o = s.free[n-1]
		s.free = s.free[:n-1]
	} else {
		o = new(Operation[F])
	}
	o.fragment, o.code = f, code
	return o
}

// Give takes an operation back that is over: End was called, or EndAnswer.
func (s *Service[F]) Give(o *Operation[F]) {
	*o = Operation[F]{}
	s.free = append(s.free, o)
}

// NotifyPut gives a put a notice of up to frag.NoticeBytesMax bytes, which are copied.
func (s *Service[F]) NotifyPut(f F, tag uint8, says []byte) *Operation[F] {
	o := s.take(f, frag.OpPart)
	o.tag, o.size = tag, uint8(copy(o.body[:], says))
	return o
}

// AskGet asks a peer, which is not Full, for bytes of a region of its own; they will be written to
// mem. The service must not be Full. An observer of the handle of mem sees the number, too: so one
// random number is enough for both.
func (s *Service[F]) AskGet(p *Peer[F], f F, mem []byte, target Handle, offset, random uint64) (
	o *Operation[F],
) {
	o = s.take(f, frag.OpGet)
	p.number(o, random>>(64-askRandomBits))
	o.into = Region[F]{mem: mem, rights: Write, only: p, get: o}
	handle, _ := s.regions.Add(random, &o.into)
	o.into.handle = Handle(handle)
	get := frag.Get{
		Handle: uint64(target), Offset: offset, Answer: handle, SizeBytes: uint32(len(mem)),
	}
	get.Marshal(o.body[:])
	o.size = frag.GetBytes
	return o
}

// AskAtomic asks a peer for an atomic operation. One that fetches is answered: then the peer must
// not be Full.
func (s *Service[F]) AskAtomic(p *Peer[F], f F, ask *frag.Atomic, random uint64) *Operation[F] {
	o := s.take(f, frag.OpAtomic)
	if ask.Fetch {
		p.number(o, random)
	}
	ask.Marshal(o.body[:])
	o.size = frag.AtomicBytes
	return o
}

// End takes from an operation what others know of it, when its fragment has ended or is not sent
// after all: from here on nothing is written to its memory, and no answer finds it. It says whether
// that makes room for another operation.
func (s *Service[F]) End(p *Peer[F], o *Operation[F]) (room bool) {
	if o.into.get != nil {
		s.regions.Remove(uint64(o.into.handle))
		o.into = Region[F]{}
	}
	if !o.numbered {
		return false
	}
	o.numbered = false
	if o.code == frag.OpPart {
		p.places &^= place(o.number)
	} else {
		p.asks.Remove(uint64(o.number))
	}
	return true
}

// Check returns what is wrong with the exposed regions, nil if nothing is.
func (s *Service[F]) Check() error {
	users := 0
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
		}
		for _, o := range r.readers {
			if o.from != r {
				return fmt.Errorf("remote: region %d is read by an answer to another", slot)
			}
		}
	}
	if users != s.users {
		return fmt.Errorf("remote: %d regions are exposed, %d counted", users, s.users)
	}
	return s.regions.Check()
}
