package remote

import (
	"encoding/binary"

	"gobtl/frag"
)

// Outcome is the effect of a peer's packet, and the work that follows from it.
type Outcome[F any] struct {
	Written int           // bytes of a put that are in their place
	Ended   *Operation[F] // what has its answer by it; nil: nothing
	Failed  bool          // the peer could not answer that, for this Reason
	Reason  uint8
	Notice  *Notice // of the put that the packet belongs to
	Says    []byte  // a notice in the packet itself: of OpPlaced

	Read    *Region[F] // what the peer asks for: Get says which bytes
	Get     frag.Get
	Fetched bool   // the peer asks for the old value of a number that was changed
	Old     uint64 // that one
}

// Link is a connection's bounds for requests.
type Link struct {
	FragBytesMax uint32 // of the answer to a get
	InOrder      bool   // whether packets come in order, and none is lost
}

// Accept does what a packet asks for, a put or an operation, if its peer may: everything but
// answers, which are sent by its owner. It returns the reason to refuse the packet for good, that
// of a Nack, or 0. The peer must not be nil, but for plain puts.
func (s *Service[F]) Accept(p *Peer[F], h *frag.Header, payload []byte, link Link,
	did *Outcome[F],
) (reason uint8) {
	if h.Flags&frag.FlagOp == 0 {
		return s.write(p, h, payload, Write, did)
	}
	switch h.OpCode {
	case frag.OpPart:
		if reason = s.write(p, h, payload, Write|Notify, did); reason == 0 {
			did.Notice = p.Placed(h.Op, len(payload))
		}
	case frag.OpPlaced:
		n := len(payload) - int(h.OpBytes)
		did.Says = payload[n:]
		reason = s.write(p, h, payload[:n], Write|Notify, did)
	case frag.OpNotice:
		did.Notice, reason = p.noticeCame(h, payload, link.InOrder)
	case frag.OpGet:
		did.Read, reason = s.ReachGet(p, payload, link, &did.Get)
	case frag.OpAtomic:
		reason = s.change(p, payload, did)
	case frag.OpResult, frag.OpFailed:
		p.answer(h, payload, did)
	}
	return reason
}

// write writes data where a put says.
func (s *Service[F]) write(p *Peer[F], h *frag.Header, data []byte, need Rights,
	did *Outcome[F],
) uint8 {
	to, reason := s.Reach(p, Handle(h.Handle), h.PutOffset, len(data), need)
	if reason != 0 {
		return reason
	}
	did.Written = copy(to.mem[h.PutOffset:], data)
	did.Ended = to.Came(len(data))
	return 0
}

// WritePlaced writes the bytes of a put, which its notice follows in the same packet, and returns
// what that says; false means that nothing is written, for there is something against it.
func (s *Service[F]) WritePlaced(p *Peer[F], h *frag.Header, payload []byte) (
	says []byte, ok bool,
) {
	n := len(payload) - int(h.OpBytes)
	const need = Write | Notify
	to, reason := s.Reach(p, Handle(h.Handle), h.PutOffset, n, need)
	if reason != 0 || to.get != nil {
		return nil, false
	}
	copy(to.mem[h.PutOffset:], payload[:n])
	return payload[n:], true
}

// WriteAnswer writes a put that brings all that a get has asked for, and returns that get; nil
// means that the put is something else, and nothing is written.
func (s *Service[F]) WriteAnswer(p *Peer[F], h *frag.Header, payload []byte) *Operation[F] {
	to, reason := s.Reach(p, Handle(h.Handle), h.PutOffset, len(payload), Write)
	if reason != 0 || to.get == nil || !to.get.waits || len(payload) < len(to.mem) {
		return nil
	}
	copy(to.mem, payload)
	return to.Came(len(payload))
}

// ReachGet reads what a get asks for and returns its region, or why it is refused.
func (s *Service[F]) ReachGet(p *Peer[F], payload []byte, link Link, g *frag.Get) (
	from *Region[F], reason uint8,
) {
	if !frag.DecodeGet(payload, g) || p.crowded() || g.SizeBytes > link.FragBytesMax {
		return nil, frag.NackAccess
	}
	return s.Reach(p, Handle(g.Handle), g.Offset, int(g.SizeBytes), Read)
}

// change executes a peer's atomic operation.
func (s *Service[F]) change(p *Peer[F], payload []byte, did *Outcome[F]) (reason uint8) {
	var a frag.Atomic
	if !frag.DecodeAtomic(payload, &a) || a.Fetch && p.crowded() {
		return frag.NackAccess
	}
	width := uint64(a.WidthBytes)
	on, reason := s.Reach(p, Handle(a.Handle), a.Offset, int(width), Atomic)
	switch {
	case reason != 0:
		return reason
	case a.Offset%width != 0:
		return frag.NackBounds
	}
	did.Old, did.Fetched = change(on.mem[a.Offset:][:width], &a), a.Fetch
	return 0
}

// change does what an atomic operation asks for to the number in mem, and returns the old one.
func change(mem []byte, a *frag.Atomic) (old uint64) {
	if len(mem) == 4 {
		old = uint64(binary.NativeEndian.Uint32(mem))
		binary.NativeEndian.PutUint32(mem, uint32(a.Apply(old)))
		return old
	}
	old = binary.NativeEndian.Uint64(mem)
	binary.NativeEndian.PutUint64(mem, a.Apply(old))
	return old
}

// answer finds the operation that an answer of one packet ends. An answer to no waiting operation
// is ignored.
func (p *Peer[F]) answer(h *frag.Header, payload []byte, did *Outcome[F]) {
	o, ok := p.asks.Get(uint64(h.Op))
	switch {
	case !ok || !o.waits:
	case h.OpCode == frag.OpResult && o.code == frag.OpAtomic:
		o.value, did.Ended = frag.DecodeResult(payload), o
	case h.OpCode == frag.OpFailed && o.code == frag.OpGet:
		did.Ended, did.Failed, did.Reason = o, true, payload[0]
	}
}

// AnswerGet makes f the answer to the get of that number, which reads a region.
func (s *Service[F]) AnswerGet(p *Peer[F], f F, number uint32, from *Region[F]) *Operation[F] {
	o := s.owe(p, f, 0)
	o.from, o.ask = from, number
	from.readers = append(from.readers, o)
	return o
}

// AnswerResult makes f the answer to the atomic operation of that number: the old value.
func (s *Service[F]) AnswerResult(p *Peer[F], f F, number uint32, old uint64) *Operation[F] {
	o := s.owe(p, f, frag.OpResult)
	frag.PutResult(o.body[:], old)
	o.number, o.size = number, frag.ResultBytes
	return o
}

// AnswerFailed makes f the answer to the get of that number, of which bytes are missing for that
// reason.
func (s *Service[F]) AnswerFailed(p *Peer[F], f F, number uint32, reason uint8) *Operation[F] {
	o := s.owe(p, f, frag.OpFailed)
	o.body[0] = reason
	o.number, o.size = number, frag.FailedBytes
	return o
}

func (s *Service[F]) owe(p *Peer[F], f F, code frag.OpCode) *Operation[F] {
	o := s.take(f, code)
	o.owed = true
	p.answering++
	return o
}

// EndAnswer takes the operation of an answer back.
func (s *Service[F]) EndAnswer(p *Peer[F], o *Operation[F]) {
	p.Left(o, false)
	o.StopReading()
	s.Give(o)
}
