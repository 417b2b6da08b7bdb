package pml

import "gobtl/btl"

// The type "repeat" is the kind of operation that Start begins.
type repeat uint8

const (
	never repeat = iota // SendInit or RecvInit was not called
	sends
	receives
)

// SendInit prepares r for repeated sends of the same memory to the same peer (MPI_Send_init,
// MPI_Ssend_init or MPI_Rsend_init, according to the argument "mode"). Each call of Start begins
// one send. While r is Done, the caller is free to change the bytes of the slice "data". After a
// call of Send, Recv or RecvMessage with r, the caller must call SendInit or RecvInit again before
// Start. If r is in use, SendInit returns ErrBusy.
func (l *Layer) SendInit(r *Request, to *Peer, tag uint64, data []byte, mode Mode) error {
	if r.state != idle {
		return ErrBusy
	}
	r.peer, r.from, r.tag, r.mem, r.mode, r.err = to, nil, tag, data, mode, nil
	r.repeat = sends
	return nil
}

// RecvInit prepares r for repeated receives into the same memory (MPI_Recv_init). The arguments of
// RecvInit have the same meaning as those of Recv. Each call of Start begins one receive. After a
// call of Send, Recv or RecvMessage with r, the caller must call SendInit or RecvInit again before
// Start. If r is in use, RecvInit returns ErrBusy.
func (l *Layer) RecvInit(r *Request, from *Peer, tag, mask uint64, mem []byte) error {
	if r.state != idle {
		return ErrBusy
	}
	r.begin(from, tag, mask, mem)
	r.repeat = receives
	return nil
}

// Start begins the send or receive for which r was prepared (MPI_Start). Start allocates no memory,
// and can be called in OnDone. The argument "now" of Start is the current time. Start returns
// ErrBusy if r is in use, ErrNotInit if r was not prepared, ErrEager for a message that is too long
// for the mode Eager, or ErrPeer if the connection to the peer has ended.
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

// StartAll starts the requests one after another, and stops before the first request that cannot be
// started (MPI_Startall). The result "begun" of StartAll is the number of started requests. The
// errors of StartAll are the errors of Start.
func (l *Layer) StartAll(now btl.Time, requests []*Request) (begun int, err error) {
	for i, r := range requests {
		if err := l.Start(now, r); err != nil {
			return i, err
		}
	}
	return len(requests), nil
}
