package frag

// Reservation is a place for a chunk that is going to be added.
type Reservation struct {
	// Begun: the chunk is the first one of its fragment.
	Begun bool
	whole *Message // the fragment, if the chunk will make it whole
	m     *Message // the fragment
	chunk uint32
}

// Reserve does what can fail in an Add: after it, AddReserved of the same chunk succeeds, if no
// other one was added meanwhile. It is for packets with two pieces, of which both are to be taken
// or none: first is the reservation of the other one, nil for the first of them. If that will make
// its fragment whole, the message is to be released before this chunk is added: until then the
// memory of both fragments is in use, which may be more than the budgets say, or else a sender
// whose next fragment begins where that one ends could never get on.
//
// The errors are those of Add. A fragment that was begun for nothing is to be given up by Forget.
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

// AddReserved is Add for a chunk that has its place. ErrNotBegun: its fragment is no longer under
// way.
func (a *Assembler) AddReserved(h *Header, r *Reservation, payload []byte) (*Message, error) {
	if r.m == nil || a.find(h.FragID) != r.m {
		return nil, ErrNotBegun
	}
	return a.add(r.m, h, r.chunk, payload)
}
