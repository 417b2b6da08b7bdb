package remote

import (
	"encoding/binary"

	"gobtl/frag"
)

// Outcome describes the effect of a peer's packet on the regions and operations, and the work that
// the module must do for the packet.
type Outcome[F any] struct {
	Written int           // bytes of a put that were written
	Ended   *Operation[F] // own operation that the packet answers, or nil
	Failed  bool          // the peer could not execute Ended, because of Reason
	Reason  uint8
	Notice  *Notice // state of the put that the packet belongs to
	Says    []byte  // notice contained in the packet itself (OpPlaced)

	Read    *Region[F] // region that the peer reads: Get has the range
	Get     frag.Get
	Fetched bool   // the peer wants the old value of an atomic operation
	Old     uint64 // the old value
}

// Link contains those properties of a connection that affect how requests of the peer are executed.
type Link struct {
	FragBytesMax uint32 // largest answer to a get, in bytes
	InOrder      bool   // packets arrive in order, and none is lost
}

// Accept executes a memory operation of a peer, such as a put, if the peer has the rights for it.
// Accept does not send the answer to the peer, but describes the answer in the Outcome. The result
// "reason" of Accept is 0, or the reason for a Nack if Accept permanently refuses the packet. The
// peer p may be nil only for a put without a notification.
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

// ReachGet parses a peer's get, and returns the region that the get reads, or the reason for a Nack
// if the get is not allowed.
func (s *Service[F]) ReachGet(p *Peer[F], payload []byte, link Link, g *frag.Get) (
	from *Region[F], reason uint8,
) {
	if !frag.DecodeGet(payload, g) || p.crowded() || g.SizeBytes > link.FragBytesMax {
		return nil, frag.NackAccess
	}
	return s.Reach(p, Handle(g.Handle), g.Offset, int(g.SizeBytes), Read)
}

// The method "change" executes a peer's atomic operation.
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

// The function "change" applies an atomic operation to the integer in the memory "mem", and returns
// the old value of this integer.
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

// The method "answer" processes a received answer of one packet, and finds the operation that the
// answer completes. An answer for which no operation waits is ignored.
func (p *Peer[F]) answer(h *frag.Header, payload []byte, did *Outcome[F]) {
	o, ok := p.asks.Get(uint64(h.Op))
	switch {
	case !ok || !o.waits:
	case h.OpCode == frag.OpResult && o.Code == frag.OpAtomic:
		o.value, did.Ended = frag.DecodeResult(payload), o
	case h.OpCode == frag.OpFailed && o.Code == frag.OpGet:
		did.Ended, did.Failed, did.Reason = o, true, payload[0]
	}
}

// AnswerGet makes fragment f the answer to the peer's get with the given number. The answer that
// AnswerGet makes reads the region "from".
func (s *Service[F]) AnswerGet(p *Peer[F], f F, number uint32, from *Region[F]) *Operation[F] {
	o := s.owe(p, f, 0)
	o.from, o.ask, o.reader = from, number, len(from.readers)
	from.readers = append(from.readers, o)
	return o
}

// AnswerResult makes fragment f the answer to the peer's atomic operation with the given number.
// The answer that AnswerResult makes contains the old value.
func (s *Service[F]) AnswerResult(p *Peer[F], f F, number uint32, old uint64) *Operation[F] {
	o := s.owe(p, f, frag.OpResult)
	frag.PutResult(o.body[:], old)
	o.Number, o.size = number, frag.ResultBytes
	return o
}

// AnswerFailed makes fragment f the answer to the peer's get with the given number. The answer that
// AnswerFailed makes reports that the get has failed, with the reason.
func (s *Service[F]) AnswerFailed(p *Peer[F], f F, number uint32, reason uint8) *Operation[F] {
	o := s.owe(p, f, frag.OpFailed)
	o.body[0] = reason
	o.Number, o.size = number, frag.FailedBytes
	return o
}

func (s *Service[F]) owe(p *Peer[F], f F, code frag.OpCode) *Operation[F] {
	o := s.take(f, code)
	o.owed = true
	p.answering++
	return o
}

// EndAnswer frees the operation of an answer.
func (s *Service[F]) EndAnswer(p *Peer[F], o *Operation[F]) {
	p.Left(o, false)
	o.StopReading()
	s.Give(o)
}
