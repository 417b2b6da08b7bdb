//go:build linux

package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A peer can send descriptors with every packet. The last close of a file may block in the process
// that does it: a socket lingers for as long as its owner has set, and a FUSE file waits for its
// file system. Dropping a packet unread closes the descriptors in it likewise. So the loop peeks at
// a packet before it receives it, closes only ring memory of a peer, and leaves a socket with any
// other descriptor to a goroutine.

// closers close descriptors whose close may block. They belong to a domain; each descriptor counts
// against the process that sent it until it is closed.
type closers struct {
	lock  sync.Mutex
	queue []closing
	count map[int32]int // sockets that are not closed yet, by the process that sent to them
	total int
	busy  bool // there is a goroutine
}

// closing is a socket of a peer, and the descriptors that came by it.
type closing struct {
	pid int32
	fds []int
}

// nobody stands for an unknown process: that of a domain that was called, or refused.
const nobody = -1

// close closes descriptors that came from a process, now or later. It never blocks.
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

// run closes descriptors until none is left.
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

// held is how many sockets are not closed yet: of a process, and of all.
func (c *closers) held(pid int32) (its, all int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.count[pid], c.total
}

// drop closes a socket of a peer: at once if no descriptor waits in it.
func (c *closers) drop(pid int32, fd int) {
	// From now on the peer can send nothing more on the socket. A socket that was never connected
	// is empty as well.
	_ = unix.Shutdown(fd, unix.SHUT_RDWR)
	// With its sender's credentials an empty packet differs from the end.
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

// credentialsBytes is the size of control data for a sender's credentials alone.
const credentialsBytes = 32

// packet is what stands first in a socket.
type packet int

const (
	packetNone  packet = iota
	packetPlain        // it has no descriptors
	packetOther        // it has some
)

// first peeks at the first packet of a socket. oob has no room for descriptors.
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
