//go:build linux

package shm

import (
	"errors"
	"os"
	"slices"

	"golang.org/x/sys/unix"

	"gobtl/internal/park"
)

// The type "loop" watches the descriptors of a domain with epoll. The descriptors of a domain are
// the listening socket, the sockets of all rings, and the descriptor that Wake makes readable. Poll
// checks the descriptors of a domain once in several polls (see tendPolls). Wait and Sleep wait for
// events on the descriptors.
type loop struct {
	domain   *domain
	epoll    int
	listen   int
	slots    []watched
	free     []int
	inLinks  int
	inMax    int // see mostIn
	outLinks int
	silent   []*inLink // links without a hello, the oldest first
	perPID   map[int32]int
	bytesOf  map[int32]int // total size of the rings of each process
	closers  closers
	deaf     int // calls of tend until the listening socket is watched again; 0: watched
	events   [16]unix.EpollEvent
	scratch  [16]byte
	oob      [oobBytes]byte
	opened   bool

	pollFd   unix.PollFd
	pollTime unix.Timespec
}

// oobBytes is the size of the buffer for the control data of a peer's first packet. A buffer of
// oobBytes bytes has room for the descriptor of the ring and for one unexpected descriptor.
const oobBytes = 24

// Incoming and outgoing links implement the interface "watched". Each link has a descriptor that
// the domain's loop watches.
type watched interface{ event() }

// The first two entries of the table "slots" are for the listening socket and for the descriptor
// that Wake makes readable.
const (
	slotListen = 0
	slotBell   = 1
)

func (o *loop) open(d *domain) (err error) {
	o.domain, o.epoll, o.listen = d, -1, -1
	o.perPID, o.bytesOf = make(map[int32]int), make(map[int32]int)
	o.opened, o.inMax = true, mostIn()
	o.slots = make([]watched, 2)
	if o.epoll, err = unix.EpollCreate1(unix.EPOLL_CLOEXEC); err != nil {
		return os.NewSyscallError("epoll_create1", err)
	}
	if o.listen, err = listen(&d.name, &o.closers); err != nil {
		return err
	}
	if err = o.watch(o.listen, slotListen); err != nil {
		return err
	}
	return o.watch(d.bell.Fd(), slotBell)
}

func (o *loop) watch(fd, slot int) error {
	ev := unix.EpollEvent{Events: unix.EPOLLIN | unix.EPOLLRDHUP, Fd: int32(slot)}
	return os.NewSyscallError("epoll_ctl", unix.EpollCtl(o.epoll, unix.EPOLL_CTL_ADD, fd, &ev))
}

func (o *loop) ignore(fd int) { _ = unix.EpollCtl(o.epoll, unix.EPOLL_CTL_DEL, fd, nil) }

// The method "add" makes the loop watch the descriptor of a link.
func (o *loop) add(fd int, w watched, slot *int) error {
	n := len(o.slots)
	if len(o.free) > 0 {
		n = o.free[len(o.free)-1]
	}
	if err := o.watch(fd, n); err != nil {
		return err
	}
	if n == len(o.slots) {
		o.slots = append(o.slots, w)
	} else {
		o.free = o.free[:len(o.free)-1]
		o.slots[n] = w
	}
	*slot = n
	return nil
}

func (o *loop) remove(fd, slot int) {
	o.ignore(fd)
	o.slots[slot] = nil
	o.free = append(o.free, slot)
	o.hear() // a descriptor is free now
}

// When the process has no free descriptor for a new peer, the loop stops watching the listening
// socket. After deafTends calls of the method "tend", the loop watches the listening socket again.
const deafTends = 128

// The method "hear" makes the loop watch the listening socket again, so that new peers are
// accepted.
func (o *loop) hear() {
	if o.deaf > 0 && o.watch(o.listen, slotListen) == nil {
		o.deaf = 0
	}
}

// The method "tend" handles pending events of the domain's descriptors without waiting, and reports
// whether Wake was called. The method "tend" does not consume the event of Wake, because this event
// must end a Wait or a Sleep. If the method "tend" has consumed events of sockets, it ends a Sleep
// in progress.
func (o *loop) tend() (rung bool) {
	if o.deaf > 1 {
		o.deaf--
	} else {
		o.hear()
	}
	n, _ := unix.EpollWait(o.epoll, o.events[:], 0) // the only error is a signal
	for i := range max(n, 0) {
		switch slot := int(o.events[i].Fd); {
		case slot == slotListen:
			o.accept()
		case slot == slotBell:
			rung = true
		case slot == park.Timer: // the timer of a Sleep
		case o.slots[slot] != nil: // nil if an earlier event has closed the link
			o.slots[slot].event()
		}
	}
	if n > 0 {
		o.domain.sleeper.tell(o.domain.bell)
	}
	return rung
}

// Tend implements fabric.Tender.
func (d *domain) Tend() {
	if !d.closed {
		d.loop.tend()
	}
}

// accept accepts the peers that have connected.
func (o *loop) accept() {
	const atOnce = 16
	for range atOnce {
		fd, err := o.acceptOne()
		if errors.Is(err, unix.EMFILE) || errors.Is(err, unix.ENFILE) {
			o.ignore(o.listen) // the peer that waits for acceptance would end every Wait
			o.deaf = deafTends
		}
		if err != nil {
			return
		}
		if !o.admit(fd) {
			o.closers.drop(nobody, fd)
		}
	}
}

// acceptOne accepts a connection of one peer if the process has two free descriptors. acceptOne
// requires the second descriptor for the memory of the ring, which the peer's first packet passes.
func (o *loop) acceptOne() (fd int, err error) {
	spare, err := unix.FcntlInt(uintptr(o.listen), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return -1, err
	}
	fd, _, err = unix.Accept4(o.listen, unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK)
	unix.Close(spare)
	return fd, err
}

// mostIn returns the largest number of incoming links that a domain accepts. Each accepted link
// needs a file descriptor. The limit mostIn leaves half of the process's file descriptors
// (RLIMIT_NOFILE) for other uses.
func mostIn() int {
	var limit unix.Rlimit
	if unix.Getrlimit(unix.RLIMIT_NOFILE, &limit) != nil {
		return linksMax
	}
	return int(min(linksMax, limit.Cur/2))
}

// The method "admit" makes an incoming link from an accepted socket, if the peer's process belongs
// to the user of this process and has not reached the limit on links of one process. The result of
// the method "admit" tells whether it has made a link.
func (o *loop) admit(fd int) bool {
	cred, err := unix.GetsockoptUcred(fd, unix.SOL_SOCKET, unix.SO_PEERCRED)
	if err != nil || cred.Uid != o.domain.name.uid || !o.mayTake(cred.Pid) {
		return false
	}
	q := &inLink{domain: o.domain, fd: fd, pid: cred.Pid}
	if o.add(fd, q, &q.slot) != nil {
		return false
	}
	o.perPID[q.pid]++
	o.inLinks++
	o.silent = append(o.silent, q)
	q.event() // the hello arrived with the connection
	if len(o.silent) > silentMax {
		oldest := o.silent[0]
		if oldest.event(); oldest.fd >= 0 && oldest.ep == nil {
			oldest.close()
		}
	}
	return true
}

func (o *loop) mayTake(pid int32) bool {
	most := min(linksPerProcess, o.inMax/2)
	if pid == 0 {
		most = o.inMax - most
	}
	its, all := o.closers.held(pid)
	return o.inLinks+all < o.inMax && o.perPID[pid]+its < most
}

func (o *loop) heard(q *inLink) {
	if i := slices.Index(o.silent, q); i >= 0 {
		o.silent = slices.Delete(o.silent, i, i+1)
	}
}

// The method "left" records that an incoming link from the process "pid" no longer exists.
func (o *loop) left(pid int32) {
	o.inLinks--
	if o.perPID[pid]--; o.perPID[pid] == 0 {
		delete(o.perPID, pid)
	}
}

func (o *loop) close() {
	if !o.opened {
		return
	}
	for _, w := range o.slots {
		if q, ok := w.(*inLink); ok { // a link without a hello
			q.close()
		}
	}
	if o.listen >= 0 {
		unlisten(&o.domain.name)
		o.turnAway()
		unix.Close(o.listen)
	}
	if o.epoll >= 0 {
		unix.Close(o.epoll)
	}
	o.opened = false
}

// turnAway shuts down the listening socket, and closes the connections that wait at the listening
// socket.
func (o *loop) turnAway() {
	_ = unix.Shutdown(o.listen, unix.SHUT_RDWR) // no peer can connect from now on
	for {
		fd, err := o.acceptOne()
		if err != nil {
			return
		}
		o.closers.drop(nobody, fd)
	}
}
