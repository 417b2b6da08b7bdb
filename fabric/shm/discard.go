//go:build linux

package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A peer can send descriptors with every packet. The last close of a descriptor is done by whoever
// has it last, and it may block: a socket lingers for as long as its owner has set, and a file of a
// file system in user space waits for that file system. A packet that is dropped unread closes the
// descriptors in it just so. So the loop looks at a packet before it takes it, closes nothing of a
// peer's but the memory of a ring, and gives a socket on which something else came to a goroutine.

// closers close what may block when it is closed. They belong to a domain; each has its descriptors
// counted for the process that has sent them until they are closed.
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

// nobody stands for a process that is not known: that of a domain that was called, or turned away.
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

// run closes until there is nothing left.
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

// drop ends a socket of a peer. A socket in which no descriptor waits is closed at once.
func (c *closers) drop(pid int32, fd int) {
	// From now on the peer can put nothing into the socket. A socket that was never connected holds
	// nothing, either.
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

// credentialsBytes is the room for a sender's credentials, and for nothing beside them.
const credentialsBytes = 32

// packet is what stands first in a socket.
type packet int

const (
	packetNone  packet = iota
	packetPlain        // it has no descriptors
	packetOther        // it has some
)

// first looks at the first packet of a socket, and leaves it there. oob has no room for
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
