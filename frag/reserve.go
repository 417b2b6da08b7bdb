package frag

// Reservation is the result of Reserve. A Reservation, which the caller passes to AddReserved,
// describes the position of a chunk in its fragment's buffer.
type Reservation struct {
	// Begun says that the chunk is the first one of its fragment to arrive.
	Begun bool
	whole *Message // the fragment, if the chunk will complete it
	m     *Message // the fragment
	chunk uint32
}

// Reserve checks a chunk of payloadBytes as Add does, and reserves memory for the chunk, but does
// not add the chunk. A call of AddReserved with the Reservation succeeds unless a chunk is added
// between Reserve and AddReserved. A receiver calls Reserve for both chunks of a packet that
// contains chunks of two fragments, because it must accept either both chunks or neither. For the
// second chunk of a packet, the argument "first" of Reserve is the Reservation of the packet's
// first chunk. For the first chunk of a packet, the argument "first" of Reserve is nil.
//
// If the packet's first chunk completes its fragment, the caller must release the completed Message
// before adding the packet's second chunk. Until the completed Message is released, the buffers of
// the packet's two fragments together may exceed the memory limits.
//
// Reserve returns the same errors as Add. If Reserve has succeeded with Begun set, but the caller
// refuses the packet, the caller must call Forget with the id of the chunk's fragment.
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

// AddReserved adds a chunk for which Reserve has reserved memory, and otherwise works like Add.
// AddReserved returns ErrNotBegun if the fragment of the chunk no longer exists, for example after
// Drop.
func (a *Assembler) AddReserved(h *Header, r *Reservation, payload []byte) (*Message, error) {
	if r.m == nil || a.find(h.FragID) != r.m {
		return nil, ErrNotBegun
	}
	return a.add(r.m, h, r.chunk, payload)
}
