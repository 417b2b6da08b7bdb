package pml

import "gobtl/btl"

// repeat is the kind of operation that Start begins.
type repeat uint8

const (
	never repeat = iota // it was not initialized
	sends
	receives
)

// SendInit prepares r for repeated sends of the same memory to the same peer, each begun by Start
// (MPI_Send_init, _Ssend_init or _Rsend_init, according to mode). SendInit itself sends nothing.
// data may be changed whenever r is Done. Send, Recv and RecvMessage with r end the preparation.
// Errors: ErrBusy.
func (l *Layer) SendInit(r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if r.state != idle {
		return ErrBusy
	}
	r.peer, r.from, r.tag, r.mem, r.mode, r.err = to, nil, tag, data, mode, nil
	r.repeat = sends
	return nil
}

// RecvInit prepares r for repeated receives into the same memory with the same criteria, as of
// Recv. Start begins each receive (MPI_Recv_init). Send, Recv and RecvMessage with r end the
// preparation. Errors: ErrBusy.
func (l *Layer) RecvInit(r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.state != idle {
		return ErrBusy
	}
	r.begin(from, tag, mask, mem)
	r.repeat = receives
	return nil
}

// Start begins the prepared send or receive of r (MPI_Start). It allocates nothing, and OnDone may
// call it. now is the present instant. Errors: ErrBusy, ErrNotInit, and ErrPeer as of Send and
// Recv.
func (l *Layer) Start(now btl.Time, r *Request) error {
	switch {
	case r.state != idle:
		return ErrBusy
	case r.repeat == sends:
		return l.send(now, r, r.peer, r.tag, r.mem, r.mode)
	case r.repeat == receives:
		// Its tag field has the tag of the last message, which satisfies its criteria.
		return l.recv(now, r, r.from, r.tag, r.mask, r.mem)
	}
	return ErrNotInit
}

// StartAll starts the requests of a list in order, up to the first one that cannot start
// (MPI_Startall). begun is the number of started requests. Errors as of Start.
func (l *Layer) StartAll(now btl.Time, requests []*Request) (begun int, err error) {
	for i, r := range requests {
		if err := l.Start(now, r); err != nil {
			return i, err
		}
	}
	return len(requests), nil
}
