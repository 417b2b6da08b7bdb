package net

import (
	"errors"
	"net"
	"net/netip"
	"sync"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/internal/doorbell"
	"gobtl/internal/fifo"
)

const (
	// When a receive from the socket fails, the reader goroutine tries again after errorPause. After
	// errorsMax consecutive failures, the reader goroutine ends.
	errorPause = time.Millisecond
	errorsMax  = 1000
	// After vainMost consecutive polls without a completion, the next Poll parks the calling goroutine
	// for at most parkTime.
	vainMost = 64
	parkTime = 50 * time.Microsecond
)

// An "inbox" is the state that an endpoint shares with its reader goroutine. An inbox contains a
// queue of posted buffers and a queue of received datagrams. The two queues of an inbox and its
// reader goroutine together hold at most RxDepth buffers.
type inbox struct {
	ended chan struct{} // closed when the reader has ended

	mu      sync.Mutex
	posted  fifo.Queue[fabric.Buf]
	arrived fifo.Queue[arrival]
	more    *sync.Cond // posted is not empty any more, or shutting
	reading bool       // the reader has a buffer
	closing bool
	err     error // that has ended the reader
}

// An arrival is a received datagram in its buffer.
type arrival struct {
	from netip.AddrPort // without zone
	buf  fabric.Buf
	len  int
}

func newInbox(depth int) *inbox {
	in := &inbox{
		ended:   make(chan struct{}),
		posted:  fifo.New[fabric.Buf](depth),
		arrived: fifo.New[arrival](depth),
	}
	in.more = sync.NewCond(&in.mu)
	return in
}

// The method "post" passes buffers to the reader goroutine.
func (in *inbox) post(bufs []fabric.Buf) (int, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	held := in.arrived.Len()
	if in.reading {
		held++
	}
	for i, b := range bufs {
		if in.posted.Len()+held == in.posted.Cap() {
			return i, fabric.ErrAgain
		}
		in.posted.Push(b)
		in.more.Signal()
	}
	return len(bufs), nil
}

// The method "take" writes completions for received datagrams to the argument "out", and appends
// the senders of these datagrams to the argument "origins". If the method "take" returns an error,
// the reader goroutine has ended, and every later call of "take" returns an error.
func (in *inbox) take(out []fabric.Completion, origins []netip.AddrPort) ([]netip.AddrPort, error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for n := range out {
		if in.arrived.Len() == 0 {
			break
		}
		a := in.arrived.Pop()
		out[n] = fabric.Completion{
			From: fabric.AddrUnknown, Buf: a.buf, Len: uint32(a.len), Op: fabric.OpRecv,
			Origin: uint16(n),
		}
		origins = append(origins, a.from)
	}
	return origins, in.err
}

// The method "waiting" reports whether Poll would return a received datagram or an error.
func (in *inbox) waiting() bool {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.arrived.Len() > 0 || in.err != nil
}

func (in *inbox) shut() {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.closing = true
	in.more.Signal()
}

// The method "next" waits for a posted buffer, and returns the buffer and true. If the endpoint is
// being closed, the method "next" returns false.
func (in *inbox) next() (fabric.Buf, bool) {
	in.mu.Lock()
	defer in.mu.Unlock()
	for in.posted.Len() == 0 && !in.closing {
		in.more.Wait()
	}
	if in.closing {
		return 0, false
	}
	in.reading = true
	return in.posted.Pop(), true
}

// put appends a received datagram to the queue.
func (in *inbox) put(a arrival) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.reading = false
	in.arrived.Push(a)
}

// The method "fail" records the error that ends the reader goroutine.
func (in *inbox) fail(err error) {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.err = err
}

// The reader goroutine of an endpoint runs the method "read". The method "read" returns when the
// endpoint is closed, or when errorsMax consecutive receives have failed.
func (in *inbox) read(conn *net.UDPConn, bufs buffers, bells ...*doorbell.Bell) {
	defer close(in.ended)
	for {
		b, ok := in.next()
		if !ok {
			return
		}
		n, from, err := receive(conn, bufs.readInto(b))
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil {
			in.fail(newError("receive", err))
			ring(bells)
			return
		}
		from = netip.AddrPortFrom(from.Addr().Unmap().WithZone(""), from.Port())
		in.put(arrival{from: from, buf: b, len: n})
		ring(bells)
	}
}

func ring(bells []*doorbell.Bell) {
	for _, b := range bells {
		b.RingIfAsleep()
	}
}

// The function "receive" reads one datagram. The function "receive" repeats a failed read up to
// errorsMax times, because a read from a UDP socket can return the error of an earlier send.
func receive(conn *net.UDPConn, mem []byte) (n int, from netip.AddrPort, err error) {
	for range errorsMax {
		n, from, err = conn.ReadFromUDPAddrPort(mem)
		switch {
		case err == nil || errors.Is(err, net.ErrClosed):
			return n, from, err
		case isCut(err): // Windows reports a datagram that is larger than the buffer as an error.
			return len(mem), from, nil
		}
		time.Sleep(errorPause)
	}
	return 0, from, err
}
