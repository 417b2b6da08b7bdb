package frag

// Reservation is the reserved place of a chunk that is going to be added.
type Reservation struct {
	// Begun says that the chunk is the first chunk of its fragment.
	Begun bool
	whole *Message // the fragment, if the chunk will complete it
	m     *Message // the fragment
	chunk uint32
}

// Reserve does the part of Add that can fail. After Reserve, AddReserved of the same chunk
// succeeds, if no other chunk was added in between. Reserve is for a packet with two pieces, which
// must be accepted together or not at all. The argument first of Reserve is the reservation of the
// first piece, or nil when the first piece is reserved.
//
// If the first piece will complete its fragment, the caller must release the completed Message
// before adding the second piece. Until the release, the memory of both fragments is in use and may
// exceed the budgets. If Reserve kept to the budgets, a sender whose next fragment begins in the
// packet that ends the previous fragment could never make progress.
//
// The errors are those of Add. If a fragment was begun and the packet is not accepted, the caller
// must call Forget.
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

// AddReserved is Add for a chunk with a reservation. ErrNotBegun means that the fragment is no
// longer in progress.
func (a *Assembler) AddReserved(h *Header, r *Reservation, payload []byte) (*Message, error) {
	if r.m == nil || a.find(h.FragID) != r.m {
		return nil, ErrNotBegun
	}
	return a.add(r.m, h, r.chunk, payload)
}
