//go:build linux

package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A peer can send file descriptors with every packet on a Unix socket. Closing a descriptor
// may block, because a socket may linger and a FUSE file waits for its file system. The
// kernel also closes the descriptors in an unread packet when the packet is dropped. The
// domain's loop peeks at each packet before the packet is received. The domain's loop
// closes only the memory of rings, and passes a socket with any other descriptor to another
// goroutine.

// A closers closes, on another goroutine, descriptors whose close may block. Each domain
// has one closers. Each received descriptor counts against the process that sent it, until
// the descriptor is closed.
type closers struct {
	lock  sync.Mutex
	queue []closing
	count map[int32]int // unclosed sockets, by the process that sent to them
	total int
	busy  bool // the goroutine is running
}

// closing is a socket of a peer with the descriptors that were received through the socket.
type closing struct {
	pid int32
	fds []int
}

// nobody stands for an unknown process id.
const nobody = -1

func (c *closers) close(pid int32, fds ...int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	if c.count == nil {
		c.count = make(map[int32]int)
	}
	c.count[pid]++
	c.total++
	c.queue = append(c.queue, closing{pid, fds})
	if !c.busy {
		c.busy = true
		go c.run()
	}
}

func (c *closers) run() {
	c.lock.Lock()
	defer c.lock.Unlock()
	for len(c.queue) > 0 {
		next := c.queue[0]
		c.queue = c.queue[1:]
		c.lock.Unlock()
		for _, fd := range next.fds {
			unix.Close(fd)
		}
		c.lock.Lock()
		c.total--
		if c.count[next.pid]--; c.count[next.pid] == 0 {
			delete(c.count, next.pid)
		}
	}
	c.queue, c.busy = nil, false
}

// held returns how many sockets wait to be closed. The result its of held is the number of
// sockets of the process pid, and the result all is the number of sockets of all processes.
func (c *closers) held(pid int32) (its, all int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.count[pid], c.total
}

// drop closes a socket of a peer. If no descriptor waits in the socket, drop closes the socket at
// once, and otherwise another goroutine closes the socket.
func (c *closers) drop(pid int32, fd int) {
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	_ = unix.SetsockoptInt(fd, unix.SOL_SOCKET, unix.SO_PASSCRED, 1)
	var oob [credentialsBytes]byte
	var rest [1]byte
	for {
		switch first(fd, oob[:]) {
		case packetNone:
			unix.Close(fd)
			return
		case packetOther:
			c.close(pid, fd)
			return
		case packetPlain:
			_, _ = unix.Read(fd, rest[:])
		}
	}
}

// credentialsBytes is the size of control data that contains only the sender's credentials.
const credentialsBytes = 32

// packet is the kind of the first packet in a socket.
type packet int

const (
	packetNone  packet = iota
	packetPlain        // the packet has no descriptors
	packetOther        // the packet has descriptors
)

// first peeks at the first packet in a socket. The argument oob of first must be too small for
// descriptors.
func first(fd int, oob []byte) packet {
	var b [1]byte
	n, oobn, flags, _, err := unix.Recvmsg(fd, b[:], oob, unix.MSG_DONTWAIT|unix.MSG_PEEK)
	switch {
	case err != nil:
		return packetNone
	case flags&unix.MSG_CTRUNC != 0:
		return packetOther
	case n == 0 && oobn == 0:
		return packetNone
	}
	return packetPlain
}
