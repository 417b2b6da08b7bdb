package pml

import "gobtl/btl"

// repeat is the kind of operation that Start begins.
type repeat uint8

const (
	never repeat = iota // SendInit or RecvInit was not called
	sends
	receives
)

// SendInit prepares r for repeated sends of the same memory to the same peer (MPI_Send_init,
// MPI_Ssend_init or MPI_Rsend_init, according to the argument "mode"). Start begins each send. The
// caller may change the slice "data" whenever r is Done. After a call of Send, Recv or RecvMessage
// with r, the caller must call SendInit or RecvInit again before Start. The error of SendInit is
// ErrBusy.
func (l *Layer) SendInit(r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if r.state != idle {
		return ErrBusy
	}
	r.peer, r.from, r.tag, r.mem, r.mode, r.err = to, nil, tag, data, mode, nil
	r.repeat = sends
	return nil
}

// RecvInit prepares r for repeated receives into the same memory with the same arguments as for
// Recv (MPI_Recv_init). Start begins each receive. After a call of Send, Recv or RecvMessage with
// r, the caller must call SendInit or RecvInit again before Start. The error of RecvInit is
// ErrBusy.
func (l *Layer) RecvInit(r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.state != idle {
		return ErrBusy
	}
	r.begin(from, tag, mask, mem)
	r.repeat = receives
	return nil
}

// Start begins the prepared send or receive of r (MPI_Start). Start allocates no memory, and OnDone
// may call Start. The argument "now" is the current time. The errors of Start are ErrBusy,
// ErrNotInit, ErrEager, and ErrPeer.
func (l *Layer) Start(now btl.Time, r *Request) error {
	switch {
	case r.state != idle:
		return ErrBusy
	case r.repeat == sends:
		return l.send(now, r, r.peer, r.tag, r.mem, r.mode)
	case r.repeat == receives:
		return l.recv(now, r, r.from, r.tag, r.mask, r.mem)
	}
	return ErrNotInit
}

// StartAll starts the requests one after another, up to the first request that cannot be started
// (MPI_Startall). The result "begun" of StartAll is the number of started requests. The errors of
// StartAll are the errors of Start.
func (l *Layer) StartAll(now btl.Time, requests []*Request) (begun int, err error) {
	for i, r := range requests {
		if err := l.Start(now, r); err != nil {
			return i, err
		}
	}
	return len(requests), nil
}
