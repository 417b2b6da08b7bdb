//go:build linux

package shm

import (
	"sync"

	"golang.org/x/sys/unix"
)

// A peer can send file descriptors with every packet on a Unix socket. The close of a received
// descriptor can block, for example until the data of a socket is sent, or until the file system of
// a FUSE file answers. When a process closes a socket, the kernel closes the descriptors in the
// unread packets of the socket. To find packets with descriptors, the domain peeks at each packet
// of a peer before it receives the packet. The goroutine that uses the domain closes a received
// descriptor only if the descriptor is the memory of a ring. If a peer's packet contains a
// descriptor that is not the memory of a ring, a separate goroutine (see the type "closers") closes
// the socket and the descriptor.

// The type "closers" closes descriptors whose close can block, on a separate goroutine. Each domain
// has one value of type "closers". Each accepted socket counts towards the limit on links
// (linksPerProcess) of the process that has connected, until the socket is closed.
type closers struct {
	lock  sync.Mutex
	queue []closing
	count map[int32]int // unclosed sockets, by the process that sent to them
	total int
	busy  bool // the goroutine is running
}

// The type "closing" holds descriptors that wait to be closed, which are a socket of a peer and the
// descriptors that were received through this socket.
type closing struct {
	pid int32
	fds []int
}

// The constant "nobody" stands for an unknown process id.
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

// The method "held" returns how many sockets wait to be closed. The result "its" of the method
// "held" counts the sockets of the process "pid", and the result "all" counts the sockets of all
// processes.
func (c *closers) held(pid int32) (its, all int) {
	c.lock.Lock()
	defer c.lock.Unlock()
	return c.count[pid], c.total
}

// The method "drop" closes a socket of a peer. If an unread packet in the socket contains a
// descriptor, the goroutine of "closers" closes the socket, and otherwise the method "drop" closes
// the socket itself.
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

// credentialsBytes is the size of the control data of a packet that contains only the sender's
// credentials.
const credentialsBytes = 32

// The type "packet" is the kind of the first unread packet in a socket.
type packet int

const (
	packetNone  packet = iota
	packetPlain        // the packet has no descriptors
	packetOther        // the packet has descriptors
)

// The function "first" peeks at the first unread packet in a socket. The argument "oob" of the
// function "first" is a buffer for control data, which must be too small for descriptors, so that
// the kernel reports a truncation if the packet contains descriptors.
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
