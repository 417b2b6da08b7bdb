package frag

// Reservation describes the memory that Reserve has reserved for a chunk, which AddReserved adds
// later.
type Reservation struct {
	// Begun says that the chunk is the first chunk of its fragment.
	Begun bool
	whole *Message // the fragment, if the chunk will complete it
	m     *Message // the fragment
	chunk uint32
}

// Reserve does the part of Add that can fail, and reserves memory for a chunk of payloadBytes. If
// no other chunk is added after Reserve, AddReserved of the same chunk succeeds. Reserve is for a
// packet with chunks of two fragments, which must be accepted together or not at all. The argument
// first of Reserve is the reservation of the packet's first chunk, or nil if Reserve is called for
// the first chunk.
//
// If the first chunk completes its fragment, the caller must release the completed Message before
// adding the second chunk. Until the completed Message is released, the memory of both fragments is
// in use, and may together exceed the limits.
//
// The errors of Reserve are those of Add. If the chunk has begun a fragment and the packet is not
// accepted, the caller must call Forget.
func (a *Assembler) Reserve(h *Header, payloadBytes int, inOrder bool, first *Reservation) (
	r Reservation, err error,
) {
	var leaving *Message
	if first != nil {
		leaving = first.whole
	}
	m, chunk, begun, err := a.place(h, payloadBytes, inOrder, leaving)
	switch {
	case err != nil:
	case m.contradicts(h):
		err = ErrMismatch
	case m.gap(chunk, 1) == 0:
		err = ErrOverlap
	default:
		r.Begun, r.m, r.chunk = begun, m, chunk
		if m.missing == 1 {
			r.whole = m
		}
	}
	return r, err
}

// AddReserved works like Add, for a chunk for which Reserve has reserved memory. ErrNotBegun means
// that the fragment of the chunk is no longer among the unfinished fragments.
func (a *Assembler) AddReserved(h *Header, r *Reservation, payload []byte) (*Message, error) {
	if r.m == nil || a.find(h.FragID) != r.m {
		return nil, ErrNotBegun
	}
	return a.add(r.m, h, r.chunk, payload)
}
