//go:build linux

package shm

import (
	"errors"
	"slices"
	"syscall"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/internal/fifo"
)

const (
	// If the rings of a domain have more than ringsLarge bytes in total, new rings have at most
	// ringMiddle bytes. If the rings of a domain have more than ringBudget bytes in total, new rings
	// have ringBytesMin bytes.
	ringsLarge = 64 << 20
	ringMiddle = 1 << 20
	ringBudget = 256 << 20
	// If the rings that a domain has accepted have more than takenBudget bytes in total, the domain
	// accepts only rings of the smallest size.
	takenBudget = 256 * ringBytesMax
	// A domain creates at most linksMax rings for its own sends, and accepts at most linksMax rings
	// from peers.
	linksMax = 2048
	// linksPerProcess is the largest number of rings that a domain accepts from one process. For a
	// domain, every process outside its PID namespace has the process id 0. All processes outside the
	// domain's PID namespace together are allowed mostIn()-linksPerProcess rings.
	linksPerProcess = 256
	// silentMax is the largest number of accepted sockets that wait for their first packet, which
	// passes the memory of the ring. If one more accepted socket has to wait for its first packet, the
	// domain closes the oldest of the waiting sockets.
	silentMax = 64
	// After a failed attempt to connect to a busy peer, the domain skips a number of later attempts.
	// The number of skipped attempts doubles after each failed attempt, up to 2^skipsMaxLog2.
	skipsMaxLog2 = 10
	// When a peer has refused a ring, the next refusedSends sends to this peer fail, and then the
	// sender offers a new ring. The number of sends that fail before the next offer doubles with each
	// consecutive refusal by the same peer.
	refusedSends     = 4
	refusedSendsLog2 = 6
)

// outLink is the outgoing link from an endpoint to a peer's endpoint, which consists of a ring and
// a Unix socket.
type outLink struct {
	ep       *endpoint
	to       name
	ring     sendRing
	memfd    int  // memfd of the ring until the peer has it, or -1
	fd       int  // -1: the peer cannot be reached now
	slot     int  // index in loop.slots
	tries    int  // failed attempts since the peer was last reached
	skips    int  // calls of goOn before the next attempt
	taken    bool // the peer has accepted the ring
	refused  int  // sends that fail before the next attempt, after a refusal
	refusals int  // refusals since the peer last accepted a ring
	// The field "waiting" holds the sends for which the ring has no room, the oldest first.
	waiting fifo.Queue[held]
	listed  bool          // in the endpoint's list of links that wait
	lost    syscall.Errno // error of lost sends that Post had reported as complete; 0: none
}

// The type "held" is a send that waits for room in a ring. The bytes of an injected send are copied
// to the field "data", because the buffer of an injected send belongs to the caller when Post
// returns.
type held struct {
	fabric.Send
	injected bool
	data     [injectBytes]byte
}

const heldKept = 256

// tellLost returns and clears the error with which injected sends on this link have failed after
// Post had returned. If no injected send has failed, tellLost returns no error.
func (l *outLink) tellLost() error {
	errno := l.lost
	l.lost = 0
	return sendFailed(errno)
}

func sendFailed(errno syscall.Errno) error {
	return failure("fi_send", errno, errno.Error())
}

// ringSize returns the size of the next ring that a domain creates, which is at most the argument
// "most". The argument "ringBytes" of ringSize is the total size of the domain's rings.
func ringSize(most, ringBytes int) int {
	for _, c := range []struct{ size, budget int }{
		{most, ringsLarge}, {min(most, ringMiddle), ringBudget},
	} {
		if ringBytes+c.size <= c.budget {
			return c.size
		}
	}
	return ringBytesMin
}

// takesBytes returns the size of the largest ring that the domain at present accepts from the
// process "pid". takesBytes returns the smallest size of a ring if one more ring of the largest
// size would exceed takenBudget in total, or half of takenBudget for the process.
func (d *domain) takesBytes(pid int32) int {
	if d.takenBytes+ringBytesMax > takenBudget ||
		d.loop.bytesOf[pid]+ringBytesMax > takenBudget/2 {
		return ringBytesMin
	}
	return ringBytesMax
}

// ringsBytes returns the total size of the first "count" rings that a domain creates. The argument
// "most" of ringsBytes is the largest size of a ring.
func ringsBytes(most, count int) (sum int) {
	for range count {
		sum += ringSize(most, sum)
	}
	return sum
}

// The method "open" connects to the peer, creates the ring, and passes the ring to the peer. The
// error EAGAIN of the method "open" means that the caller should try again later. An error that is
// not EAGAIN means that the peer cannot be reached.
func (l *outLink) open() error {
	d := l.ep.domain
	if _, held := d.loop.closers.held(nobody); d.loop.outLinks+held >= linksMax {
		return unix.EMFILE
	}
	fd, err := call(&l.to) // before makeRing, because a dead peer needs no ring
	if err == nil {
		if err = l.makeRing(); err == nil {
			err = hello(fd, &l.to, l.memfd)
		}
		if err == nil {
			err = d.loop.add(fd, l, &l.slot)
		}
		if err != nil {
			d.loop.closers.drop(nobody, fd)
		}
	}
	switch {
	case err == nil:
		d.loop.outLinks++
		l.fd, l.tries, l.taken = fd, 0, false
		unix.Close(l.memfd)
		l.memfd = -1
	case passes(err):
		return l.later(err)
	default:
		l.tries, l.skips = 0, 0
		l.dropRing()
	}
	return err
}

func (l *outLink) makeRing() error {
	if l.ring.mem != nil {
		return nil
	}
	d := l.ep.domain
	size := ringSize(d.ringMost, d.ringBytes)
	if l.refusals > 0 { // the refused ring may have been too large
		size = ringBytesMin
	}
	mem, memfd, err := makeRing(size)
	if err != nil {
		return err
	}
	l.ring, l.memfd = sendRing{ring: newRing(mem)}, memfd
	l.ring.format()
	d.ringBytes += size
	return nil
}

// The function "passes" reports whether an error of connecting to a peer is temporary. An error is
// temporary if the peer is busy, or if there are too few descriptors or too little memory.
func passes(err error) bool {
	return slices.ContainsFunc([]error{
		unix.EAGAIN, unix.EINTR, unix.EMFILE, unix.ENFILE, unix.ENOMEM, unix.ENOBUFS, unix.ENOSPC,
		unix.ETOOMANYREFS,
	}, func(e error) bool { return errors.Is(err, e) })
}

// If the error "err" is temporary, the method "later" schedules a new attempt to connect and
// returns EAGAIN. If the error "err" is not temporary, the method "later" returns the error
// unchanged.
func (l *outLink) later(err error) error {
	if !passes(err) {
		return err
	}
	l.skips = 1 << min(l.tries, skipsMaxLog2)
	l.tries++
	return unix.EAGAIN
}

// The method "close" of an outgoing link unmaps the ring in the sending process, and closes the
// socket. The peer can still read the datagrams in a closed ring.
func (l *outLink) close() {
	if l.fd >= 0 {
		o := &l.ep.domain.loop
		o.remove(l.fd, l.slot)
		o.outLinks--
		o.closers.drop(nobody, l.fd)
		l.fd = -1
	}
	l.dropRing()
}

func (l *outLink) dropRing() {
	if l.ring.mem == nil {
		return
	}
	l.ep.domain.ringBytes -= int(l.ring.size)
	_ = unix.Munmap(l.ring.mem) // cannot fail for memory from Mmap
	if l.memfd >= 0 {
		unix.Close(l.memfd)
	}
	l.memfd, l.ring, l.tries, l.skips = -1, sendRing{}, 0, 0
}

// The method "fail" completes all waiting sends of the link with an error.
func (l *outLink) fail(errno syscall.Errno) {
	for l.waiting.Len() > 0 {
		h := l.waiting.Pop()
		l.ep.unsent--
		l.ep.ended(l, &h, errno)
	}
}

// The method "flush" makes the datagrams that were put into the ring visible to the peer, and wakes
// the peer if the peer sleeps.
func (l *outLink) flush() {
	if l.fd < 0 {
		return
	}
	l.ring.publish()
	if how := l.ring.wake; how != awake {
		l.ring.wake = awake
		rouse(l.fd, l.ring.sleeps(), how)
	}
}

// The method "send" copies a datagram into the ring, and creates the ring if necessary. The result
// "again" of the method "send" is true if the send must be tried again, because the ring has no
// room or the peer is too busy to accept the ring. The result "errno" of the method "send" is the
// error of a failed send, for example if the peer does not exist, and otherwise 0.
func (l *outLink) send(s *fabric.Send) (again bool, errno syscall.Errno) {
	if again, errno = l.reach(); again || errno != 0 {
		return again, errno
	}
	d := l.ep.domain
	var tail []byte
	if s.Region != 0 {
		if tail = d.regions.Gather(s); tail == nil {
			return false, unix.EINVAL // the region was deregistered after Post
		}
	}
	return !l.ring.put(d.arena.Bytes(s.Buf)[:s.Len], tail), 0
}

// sendHeld works like the method "send", for a send from the queue of waiting sends.
func (l *outLink) sendHeld(h *held) (again bool, errno syscall.Errno) {
	if !h.injected {
		return l.send(&h.Send)
	}
	if again, errno = l.reach(); again || errno != 0 {
		return again, errno
	}
	return !l.ring.put(h.data[:h.Len], nil), 0
}

// The method "reach" creates the ring of the link, unless the link already has a ring.
func (l *outLink) reach() (again bool, errno syscall.Errno) {
	if l.fd < 0 {
		if l.refused > 0 {
			l.refused--
			return false, unix.ECONNREFUSED
		}
		if l.skips > 0 {
			l.skips--
			return true, 0
		}
		if err := l.open(); err != nil {
			errno, ok := errors.AsType[syscall.Errno](err)
			if !ok {
				errno = unix.EIO
			}
			return errno == unix.EAGAIN, errno
		}
	}
	return false, 0
}

// goOn sends the datagrams of a link that wait for room in the ring. If the peer has ended, goOn
// completes the waiting sends with an error.
func (l *outLink) goOn() {
	for l.waiting.Len() > 0 {
		h := l.waiting.Front()
		again, errno := l.sendHeld(h)
		if again {
			break
		}
		l.ep.ended(l, h, errno)
		l.waiting.Pop()
	}
	if l.waiting.Len() == 0 && l.waiting.Cap() > heldKept {
		l.waiting = fifo.Queue[held]{}
	}
	l.flush()
}

// The domain's loop calls the method "event" of an outgoing link when the receiver signals that the
// ring has room again, or when the receiver has ended.
func (l *outLink) event() {
	knocks, alive := hush(l.fd, l.ep.domain.loop.scratch[:])
	if knocks {
		l.taken, l.refusals = true, 0
	}
	if alive {
		return
	}
	to, errno, closers := l.to, unix.ECONNRESET, &l.ep.domain.loop.closers
	if !l.taken {
		l.refused, errno = refusedSends<<min(l.refusals, refusedSendsLog2), unix.ECONNREFUSED
		l.refusals++
	}
	l.close()
	l.fail(errno)
	buryPeer(&to, closers)
}

// inLink is the incoming link from a peer to one endpoint.
type inLink struct {
	domain *domain
	ep     *endpoint // nil until the peer's hello has come
	ring   recvRing
	fd     int
	slot   int
	pid    int32
	gone   bool // the peer has ended; Poll still reads the rest of the ring
	given  bool // fd belongs to the closers
}

// The domain's loop calls the method "event" of an incoming link when the sender has sent its first
// packet or a wake-up packet, or when the sender has ended.
func (q *inLink) event() {
	if q.ep == nil {
		if err := q.meet(); err != nil && !errors.Is(err, unix.EAGAIN) {
			q.close()
		}
		return
	}
	if _, alive := hush(q.fd, q.domain.loop.scratch[:]); !alive {
		q.gone = true
		q.domain.loop.ignore(q.fd) // a closed socket would end every Wait
	}
}

// The method "meet" receives the peer's first packet, which contains the descriptor of a ring, and
// maps the ring.
func (q *inLink) meet() error {
	o := &q.domain.loop
	number, memfd, err := readHello(q.fd, q.pid, &o.closers, o.oob[:])
	if errors.Is(err, errForeign) {
		q.given = true
	}
	if err != nil {
		return err
	}
	defer unix.Close(memfd)
	ep := q.domain.endpoint(number)
	if ep == nil {
		return errHello
	}
	mem, err := mapRing(memfd, q.domain.takesBytes(q.pid))
	if err != nil {
		return err
	}
	q.ring = recvRing{ring: newRing(mem)}
	q.domain.takenBytes += int(q.ring.size)
	q.domain.loop.bytesOf[q.pid] += int(q.ring.size)
	if !q.ring.check() {
		return errHello // close unmaps mem
	}
	q.domain.loop.heard(q)
	q.ep = ep
	q.ep.rings = append(q.ep.rings, q)
	knock(q.fd)
	return nil
}

// The method "close" releases the ring and the socket.
func (q *inLink) close() {
	o := &q.domain.loop
	if q.ep != nil {
		q.ep.forget(q)
	} else {
		o.heard(q)
	}
	o.remove(q.fd, q.slot)
	o.left(q.pid)
	if !q.given {
		o.closers.drop(q.pid, q.fd)
	}
	if q.ring.mem != nil {
		q.domain.takenBytes -= int(q.ring.size)
		if o.bytesOf[q.pid] -= int(q.ring.size); o.bytesOf[q.pid] == 0 {
			delete(o.bytesOf, q.pid)
		}
		_ = unix.Munmap(q.ring.mem) // cannot fail: it was mapped so
	}
	*q = inLink{domain: q.domain, fd: -1}
}
