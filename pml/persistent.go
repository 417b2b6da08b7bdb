package pml

import "gobtl/btl"

// repeat is what Start does with a Request.
type repeat uint8

const (
	never repeat = iota // it was not initialized
	sends
	receives
)

// SendInit readies r for sends of the same memory to the same peer, each of which Start begins
// (MPI_Send_init, _Ssend_init, _Rsend_init, as mode says). Nothing is sent, and data may be changed
// whenever r is Done. Send, Recv and RecvMessage with r end that. Errors: ErrBusy.
func (l *Layer) SendInit(r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if r.state != idle {
		return ErrBusy
	}
	r.peer, r.from, r.tag, r.mem, r.mode, r.err = to, nil, tag, data, mode, nil
	r.repeat = sends
	return nil
}

// RecvInit readies r for receives into the same memory with the same criteria, which are those of
// Recv; Start begins each (MPI_Recv_init). Send, Recv and RecvMessage with r end that. Errors:
// ErrBusy.
func (l *Layer) RecvInit(r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.state != idle {
		return ErrBusy
	}
	r.begin(from, tag, mask, mem)
	r.repeat = receives
	return nil
}

// Start begins the send or the receive that r was readied for (MPI_Start). It allocates nothing,
// and may be called by OnDone. now is the present instant. Errors: ErrBusy, ErrNotInit, and ErrPeer
// as of Send and Recv.
func (l *Layer) Start(now btl.Time, r *Request) error {
	switch {
	case r.state != idle:
		return ErrBusy
	case r.repeat == sends:
		return l.send(now, r, r.peer, r.tag, r.mem, r.mode)
	case r.repeat == receives:
		// Its tag is that of the last message, which is one that it wants.
		return l.recv(now, r, r.from, r.tag, r.mask, r.mem)
	}
	return ErrNotInit
}

// StartAll begins those of a list in its order (MPI_Startall), up to the first that cannot begin:
// begun says how many have. Errors as of Start.
func (l *Layer) StartAll(now btl.Time, requests []*Request) (begun int, err error) {
	for i, r := range requests {
		if err := l.Start(now, r); err != nil {
			return i, err
		}
	}
	return len(requests), nil
}
