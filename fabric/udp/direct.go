//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/inet"
)

// The type direct is a second socket of an endpoint, with the same address and port as the first
// one, and connected to the peer to which most sends go. The second socket receives the datagrams
// that come from the address of this peer. All other datagrams arrive at the endpoint's first
// socket.
//
// An endpoint that sends equally often to many peers has no second socket. The second socket is
// opened when a clear majority of the sends has gone to one peer for a while, and is closed when
// this majority ends. Each time a second socket is opened, the required majority for the next
// second socket rises. Before the second socket is closed, it is read in turn with the first socket
// until it is empty, but in at most directLeaving polls.
type direct struct {
	sock    *socket // nil: no second socket
	to      fabric.Addr
	off     bool   // not used, by option or after errors; why has the reason
	why     string // the reason of off
	fails   int    // consecutive failures to open the socket
	leaving bool   // the socket sends nothing more and closes when it is empty
	left    int    // polls while leaving
	mainHot bool   // the first socket was the last to receive something

	// The field candidate is the peer that may have the majority of the endpoint's sends. The field
	// lead is the number of calls of Post to the candidate minus the number of calls to all other
	// peers. While there is a second socket, the field posts counts all calls of Post, and the
	// field hits counts those to the peer of the second socket.
	candidate   fabric.Addr
	lead        int
	needed      int
	posts, hits int

	polls uint // polls since the other socket was read
	quiet uint // consecutive polls without a datagram
	both  bool // the next poll reads both sockets, after a sleep
}

// The first time, a second socket is opened when the calls of Post to one peer exceed the calls to
// all other peers together by directLead. Tests change this number.
var directLead = 256

const (
	directLeadMax = 1 << 16
	// After every directPosts calls of Post, the endpoint checks whether the majority of the sends
	// has gone to the peer of the second socket.
	directPosts = 1024
	// Polls read the socket that had the most recent datagram, and once in directOther polls the
	// other socket. After directQuiet polls without a datagram, the two sockets are read
	// alternately.
	directOther = 16
	directQuiet = 64
	// A second socket that is about to be closed is read in at most directLeaving polls. Without
	// the limit directLeaving, a peer that floods the socket could keep the socket open for ever.
	directLeaving = 256
	// After directFails consecutive failed attempts to open a second socket, the endpoint makes no
	// further attempt. Each attempt requires a lead that is twice as large as for the previous
	// attempt.
	directFails = 4
)

func newDirect(o Options) direct {
	t := direct{to: fabric.AddrUnknown, candidate: fabric.AddrUnknown, needed: directLead}
	if o.NoConnect {
		t.off, t.why = true, "by option"
	}
	return t
}

// The method vote counts a call of Post to a peer. When most calls of Post go to one peer, vote
// opens the second socket for this peer. When most calls go to other peers, vote closes the second
// socket.
func (e *endpoint) vote(to fabric.Addr) {
	t := &e.direct
	if t.off {
		return
	}
	if t.sock != nil {
		if t.posts++; to == t.to {
			t.hits++
		}
		if t.posts >= directPosts {
			if t.hits < t.posts/2 {
				t.leaving = true
			}
			t.posts, t.hits = 0, 0
		}
		return
	}
	switch {
	case to == t.candidate:
		t.lead++
	case t.lead > 0:
		t.lead--
	default:
		t.candidate, t.lead = to, 1
	}
	if t.lead >= t.needed {
		t.lead = 0
		t.needed = min(2*t.needed, directLeadMax)
		e.openDirect(t.candidate)
	}
}

func (e *endpoint) openDirect(to fabric.Addr) {
	d, t := e.domain, &e.direct
	slot := d.peers.slot(to)
	if slot == nil || slot.sock.addrPort().Addr().IsMulticast() {
		return
	}
	at := d.local
	at.Port = e.sock.name.Port()
	err := e.sock.sharePort(true)
	var s *socket
	if err == nil {
		s, err = openSharing(&at, d.options, e.recvAsked, e.pathSize)
		_ = e.sock.sharePort(false)
	}
	if err == nil {
		if err = s.connect(&slot.sock, e.tx.nameLen); err != nil {
			_ = s.close()
		}
	}
	if err != nil {
		if t.fails++; t.fails >= directFails {
			t.off, t.why = true, err.Error()
		}
		return
	}
	t.fails, t.left = 0, 0
	t.sock, t.to, t.leaving, t.mainHot = s, to, false, true
	d.sleeper.add(s)
	t.posts, t.hits, t.polls = 0, 0, 0
	e.counts.connects++
}

// closeDirect closes the second socket.
func (e *endpoint) closeDirect() {
	t := &e.direct
	if t.sock == nil {
		return
	}
	e.counts.overflown += t.sock.drops()
	e.domain.sleeper.forget(t.sock)
	_ = t.sock.close() // the close does not lose datagrams that were sent
	t.sock, t.to, t.leaving = nil, fabric.AddrUnknown, false
}

func (t *direct) sendsTo(to fabric.Addr) bool {
	return t.sock != nil && to == t.to && !t.leaving
}

// pollDirect works like receive, for an endpoint with two sockets. pollDirect reads one of the two
// sockets, and if it is empty, the other socket, too.
func (e *endpoint) pollDirect(rows int) (int, error) {
	t := &e.direct
	if t.leaving {
		return e.pollLeaving(rows)
	}
	hot, cold := t.sock, e.sock
	if t.mainHot {
		hot, cold = cold, hot
	}
	every := uint(directOther)
	if t.quiet > directQuiet {
		every = 2
	}
	first, second := hot, (*socket)(nil)
	if t.polls++; t.polls >= every {
		t.polls = 0
		first, second = cold, hot
	}
	if t.both && second == nil {
		second = cold
	}
	t.both = false
	got, err := e.receiveFrom(first, rows)
	from := first
	if got == 0 && err == nil && second != nil {
		got, err = e.receiveFrom(second, rows)
		from = second
	}
	if got == 0 {
		t.quiet++
		return got, err
	}
	t.quiet, t.mainHot = 0, from == e.sock
	return got, err
}

// pollLeaving works like pollDirect, for an endpoint whose second socket is about to be closed.
func (e *endpoint) pollLeaving(rows int) (got int, err error) {
	t := &e.direct
	t.left++
	if t.left%2 == 0 {
		if got, err = e.receiveFrom(e.sock, rows); got > 0 || err != nil {
			return got, err
		}
	}
	got, err = e.receiveFrom(t.sock, rows)
	if got == 0 && err == nil || t.left >= directLeaving {
		e.closeDirect()
	}
	if got == 0 && err == nil && t.left%2 != 0 {
		got, err = e.receiveFrom(e.sock, rows)
	}
	return got, err
}

// openSharing opens a socket with the same address and port as another socket, which must permit
// the sharing of its port (see sharePort).
func openSharing(l *inet.Local, o Options, recvBytes int, pathSize bool) (*socket, error) {
	return newSocket(l, func(s *socket) error {
		if err := s.sharePort(true); err != nil {
			return err
		}
		err := s.setUp(l, o, recvBytes, pathSize)
		_ = s.sharePort(false)
		return err
	})
}

// sharePort sets whether other sockets of this user may be bound to the same port. All sockets on
// the port must permit this.
func (s *socket) sharePort(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return sysError("setsockopt",
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, value))
}

func (t *direct) attr() fabric.Attr {
	if t.off {
		return fabric.Attr{Name: "connect", Value: "off: " + t.why}
	}
	return fabric.Attr{Name: "connect", Value: "the peer that most is sent to"}
}

// connect connects the socket to a peer.
func (s *socket) connect(to *sockaddr, lenBytes uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(s.fd),
		uintptr(unsafe.Pointer(to)), uintptr(lenBytes))
	if errno != 0 {
		return newError("connect", errno)
	}
	return nil
}
