//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// direct is a second socket of an endpoint, of the same address and port, that is connected to the
// peer to which most is sent: the kernel finds the way once and not for each datagram, which saves
// 0.6 us of a round. What comes from that very address comes to it, all else to the endpoint's
// first socket, as before: strangers, others, and a peer whose answers bear another address.
//
// An endpoint that sends to many has none. It is made when one peer has had a clear majority for a
// while, and goes when that peer has it no longer; each time it takes more to make the next one.
// One that goes is read until it is empty, or for directLeaving polls, in turns with the first
// socket. What comes between the last read and the end is lost, as any datagram may be.
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

// directLead is by how many calls of Post one peer must be ahead of all others together, the first
// time; then twice as many each time, up to directLeadMax. Tests change it.
var directLead = 256

const (
	directLeadMax = 1 << 16
	// directPosts is after how many calls of Post the majority is looked at.
	directPosts = 1024
	// directOther is how many polls there are between two looks into the socket that did not have
	// something last: each costs a system call. After directQuiet in vain they take turns.
	directOther = 16
	directQuiet = 64
	// directLeaving is for how many polls one that is leaving is read, if more and more comes: by a
	// peer that floods no place for another one shall be held.
	directLeaving = 256
	// directFails is how many tries in a row may fail: each takes twice as many calls as the one
	// before. One may fail for what passes, or for a peer that cannot be connected to as others can.
	directFails = 4
)

func newDirect(o Options) direct {
	t := direct{to: fabric.AddrUnknown, candidate: fabric.AddrUnknown, needed: directLead}
	if o.NoConnect {
		t.off, t.why = true, "by option"
	}
	return t
}

// vote notes for whom a call of Post is, and makes or lets go the socket.
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
	// Only while the second one is bound may the two share the port: nobody else ever may.
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

// sendsTo says whether what goes to a peer goes through the connected socket.
func (t *direct) sendsTo(to fabric.Addr) bool {
	return t.sock != nil && to == t.to && !t.leaving
}

// pollDirect is receive for an endpoint of two sockets: it looks into one, and only if that is
// empty into the other.
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
