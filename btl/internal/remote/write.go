package remote

import "gobtl/frag"

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

// WritePlaced writes the bytes of a put whose notification is in the same packet, and returns the
// content of the notification. If the put is not allowed, WritePlaced writes nothing, and the
// result "ok" is false.
func (s *Service[F]) WritePlaced(p *Peer[F], h *frag.Header, payload []byte) (
	says []byte, ok bool,
) {
	n := len(payload) - int(h.OpBytes)
	const need = Write | Notify
	to, reason := s.Reach(p, Handle(h.Handle), h.PutOffset, n, need)
	if reason != 0 || to.get != nil {
		return nil, false
	}
	to.written += uint64(copy(to.mem[h.PutOffset:], payload[:n]))
	return payload[n:], true
}

// WriteAnswer writes the bytes of a put that is the complete answer to a get, and returns this get.
// For a put that is not the complete answer to a get, WriteAnswer writes nothing and returns nil.
func (s *Service[F]) WriteAnswer(p *Peer[F], h *frag.Header, payload []byte) *Operation[F] {
	to, reason := s.Reach(p, Handle(h.Handle), h.PutOffset, len(payload), Write)
	if reason != 0 || to.get == nil || !to.get.waits || len(payload) < len(to.mem) {
		return nil
	}
	copy(to.mem, payload)
	return to.Came(len(payload))
}
