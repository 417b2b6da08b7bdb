//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// direct is a second socket of an endpoint, of the same address and port, connected to the peer
// with most of the sends: the kernel looks the route up once instead of for each datagram, which
// saves 0.6 us of a round. It receives the datagrams from that address; all others still go to the
// endpoint's first socket, also those of a peer that answers from another address.
//
// An endpoint that sends to many has none. It is made when one peer has had a clear majority for a
// while, and closed when that ends; each time the threshold for the next one rises. A socket that
// is to be closed is first read until it is empty, or for directLeaving polls, in turns with the
// first socket. Datagrams between the last read and the close are lost, as any datagram may be.
type direct struct {
	sock    *socket // nil: there is none
	to      fabric.Addr
	off     bool   // by option, or for good: why says so
	why     string // it is off
	fails   int    // to make one, in a row
	leaving bool   // nothing is sent through it any more; it goes when it is empty
	left    int    // polls since it is leaving
	mainHot bool   // the first socket had something last

	// The peer that may have the majority, and its lead over all others in calls of Post; while there
	// is a socket, the calls that were for it, of posts.
	candidate   fabric.Addr
	lead        int
	needed      int
	posts, hits int

	polls uint // since the other socket was looked at
	quiet uint // in vain
	both  bool // the next poll looks at both: either one may have ended a sleep
}

// directLead is the number of calls of Post by which one peer must first lead all others together;
// it doubles each time, up to directLeadMax. Tests change it.
var directLead = 256

const (
	directLeadMax = 1 << 16
	// directPosts is the number of calls of Post between two checks of the majority.
	directPosts = 1024
	// directOther is the number of polls between two reads of the socket that was not the last to
	// receive: each costs a system call. After directQuiet fruitless polls the two take turns.
	directOther = 16
	directQuiet = 64
	// directLeaving is the number of polls for which a closing socket is still read: a flooding
	// peer must not block the socket for another.
	directLeaving = 256
	// directFails is how many tries in a row may fail: each needs twice as many calls as the
	// previous one. A try may fail temporarily, or because of the peer's address.
	directFails = 4
)

func newDirect(o Options) direct {
	t := direct{to: fabric.AddrUnknown, candidate: fabric.AddrUnknown, needed: directLead}
	if o.NoConnect {
		t.off, t.why = true, "by option"
	}
	return t
}

// vote counts the peer of a call of Post, and opens or closes the socket accordingly.
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

// openDirect tries to connect a socket to a peer.
func (e *endpoint) openDirect(to fabric.Addr) {
	d, t := e.domain, &e.direct
	slot := d.peers.slot(to)
	if slot == nil || slot.sock.addrPort().Addr().IsMulticast() {
		return
	}
	at := d.local
	at.port = e.sock.name.Port()
	// Only while the second one is bound may the two share the port: no other socket ever may.
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

// closeDirect gives the socket back.
func (e *endpoint) closeDirect() {
	t := &e.direct
	if t.sock == nil {
		return
	}
	e.counts.overflown += t.sock.drops()
	e.domain.sleeper.forget(t.sock)
	_ = t.sock.close() // what this side has sent is not lost by it
	t.sock, t.to, t.leaving = nil, fabric.AddrUnknown, false
}

// sendsTo says whether sends to a peer go through the connected socket.
func (t *direct) sendsTo(to fabric.Addr) bool {
	return t.sock != nil && to == t.to && !t.leaving
}

// pollDirect is receive for an endpoint of two sockets: it reads one, and only if that is empty the
// other.
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

// pollLeaving is pollDirect while the connected socket is leaving.
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

// openSharing opens a socket on an address and port that another one has, which allows it.
func openSharing(l *local, o Options, recvBytes int, pathSize bool) (*socket, error) {
	return newSocket(l, func(s *socket) error {
		if err := s.sharePort(true); err != nil {
			return err
		}
		err := s.setUp(l, o, recvBytes, pathSize)
		_ = s.sharePort(false)
		return err
	})
}

// sharePort says whether other sockets of this user that do the same may have the port, too.
func (s *socket) sharePort(on bool) error {
	value := 0
	if on {
		value = 1
	}
	return sysError("setsockopt",
		unix.SetsockoptInt(s.fd, unix.SOL_SOCKET, unix.SO_REUSEPORT, value))
}

// attr shows the state for people.
func (t *direct) attr() fabric.Attr {
	if t.off {
		return fabric.Attr{Name: "connect", Value: "off: " + t.why}
	}
	return fabric.Attr{Name: "connect", Value: "the peer that most is sent to"}
}

// connect makes a peer the socket's only one.
func (s *socket) connect(to *sockaddr, lenBytes uint32) error {
	_, _, errno := unix.RawSyscall(unix.SYS_CONNECT, uintptr(s.fd),
		uintptr(unsafe.Pointer(to)), uintptr(lenBytes))
	if errno != 0 {
		return newError("connect", errno)
	}
	return nil
}
