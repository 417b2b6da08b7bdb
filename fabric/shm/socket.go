//go:build linux

package shm

import (
	"encoding/binary"
	"errors"
	"fmt"
	"os"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	helloMagic   = 0x676f62746c53_01 // "gobtlS", version 1
	helloBytes   = 8 + 2
	backlog      = 128
	sealsWanted  = unix.F_SEAL_SHRINK
	sealsOfRings = unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
)

// The sender of a ring sends the first packet on the ring's socket, called hello, which contains
// the descriptor of the ring's memory. After the hello, the socket carries wake-up packets of one
// byte in both directions. The receiver's first wake-up packet says that the receiver has accepted
// the ring.

// The function "listen" creates a domain's Unix socket and listens on it.
func listen(n *name, c *closers) (fd int, err error) {
	for range listenTries {
		var dir int
		if dir, err = openDir(n.uid); errors.Is(err, unix.ENOENT) {
			continue
		} else if err != nil {
			break
		}
		fd, err = listenIn(dir, n, c)
		unix.Close(dir)
		if !errors.Is(err, unix.ENOENT) {
			break
		}
	}
	if err != nil {
		return -1, fmt.Errorf("%w: %w", fabric.ErrUnavailable, err)
	}
	return fd, nil
}

// listenTries is the largest number of attempts to create a domain's Unix socket. An attempt fails
// if a different process removes the empty directory of the user's sockets before the new socket is
// in the directory.
const listenTries = 2000

// listenIn creates a domain's Unix socket in an open directory. The socket has a temporary name
// until the domain listens on the socket. The error ENOENT of listenIn means that a different
// process has removed the directory.
func listenIn(dir int, n *name, c *closers) (fd int, err error) {
	sweep(dir, c)
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, os.NewSyscallError("socket", err)
	}
	final := n.fileName()
	first := "." + final
	err = os.NewSyscallError("bind", unix.Bind(fd, &unix.SockaddrUnix{Name: inDir(dir, first)}))
	if err == nil {
		err = os.NewSyscallError("listen", unix.Listen(fd, backlog))
	}
	if err == nil {
		err = os.NewSyscallError("rename", unix.Renameat(dir, first, dir, final))
	}
	if err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// unlisten removes the Unix socket of a domain. If the user's directory of sockets contains no
// other socket, unlisten removes the directory as well.
func unlisten(n *name) {
	_ = unix.Unlink(n.socketPath())
	_ = unix.Rmdir(socketDir(n.uid)) // fails unless the directory is empty
}

// The function "call" connects to a peer's domain. The error EAGAIN of the function "call" means
// that the peer is too busy to accept the connection.
func call(to *name) (fd int, err error) {
	fd, err = unix.Socket(unix.AF_UNIX, unix.SOCK_SEQPACKET|unix.SOCK_CLOEXEC|unix.SOCK_NONBLOCK, 0)
	if err != nil {
		return -1, err
	}
	if err := unix.Connect(fd, &unix.SockaddrUnix{Name: to.socketPath()}); err != nil {
		unix.Close(fd)
		return -1, err
	}
	return fd, nil
}

// The function "hello" passes the memory of a new ring to the peer's domain. The error EAGAIN of
// the function "hello" means that the peer is too busy to receive the ring.
func hello(fd int, to *name, memfd int) error {
	var b [helloBytes]byte
	binary.LittleEndian.PutUint64(b[:], helloMagic)
	binary.LittleEndian.PutUint16(b[8:], to.endpoint)
	err := unix.Sendmsg(fd, b[:], unix.UnixRights(memfd), nil, unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
	if errors.Is(err, unix.EPIPE) || errors.Is(err, unix.ECONNRESET) {
		return unix.EAGAIN // the peer has closed a silent link, or has too many links
	}
	return err
}

// errHello means that a peer's first packet is invalid.
var errHello = errors.New("shm: not a hello")

// errForeign means that a peer has passed a descriptor that is not the memory of a ring. If
// readHello returns errForeign, the goroutine of the type "closers" closes the peer's socket.
var errForeign = fmt.Errorf("%w: a descriptor of no memory", errHello)

// readHello receives a peer's first packet, with the number of the addressed endpoint and the
// ring's memory. If the first packet contains a descriptor that is not the memory of a ring, the
// goroutine of the type "closers" closes the descriptor and the socket.
func readHello(fd int, pid int32, c *closers, oob []byte) (endpoint uint16, memfd int, err error) {
	var hello [helloBytes]byte
	const flags = unix.MSG_DONTWAIT | unix.MSG_CMSG_CLOEXEC | unix.MSG_PEEK
	n, oobn, _, _, err := unix.Recvmsg(fd, hello[:], oob, flags)
	if err != nil {
		return 0, -1, err
	}
	fds := rights(oob[:oobn])
	memory := len(fds) == 1
	if memory {
		_, err := unix.FcntlInt(uintptr(fds[0]), unix.F_GET_SEALS, 0)
		memory = err == nil // Closing such memory does not block.
	}
	if len(fds) > 0 && !memory {
		c.close(pid, append(fds, fd)...)
		return 0, -1, errForeign
	}
	whole := n == helloBytes && memory && binary.LittleEndian.Uint64(hello[:]) == helloMagic
	if whole {
		_, err = unix.Read(fd, hello[:])
	}
	if !whole || err != nil {
		for _, fd := range fds {
			unix.Close(fd)
		}
		return 0, -1, errHello
	}
	return binary.LittleEndian.Uint16(hello[8:]), fds[0], nil
}

// The function "rights" returns the descriptors that were received with a packet.
func rights(oob []byte) (fds []int) {
	messages, err := unix.ParseSocketControlMessage(oob)
	if err != nil {
		return nil
	}
	for i := range messages {
		got, err := unix.ParseUnixRights(&messages[i])
		if err == nil {
			fds = append(fds, got...)
		}
	}
	return fds
}

// The function "knock" sends a wake-up packet to the peer at the other end of a socket. If the
// socket is full, the function "knock" sends nothing, because the unread wake-up packets in the
// socket wake the peer.
func knock(fd int) {
	_ = unix.Send(fd, knockBytes[:], unix.MSG_DONTWAIT|unix.MSG_NOSIGNAL)
}

var knockBytes = [1]byte{1}

// knocksRead is the largest number of wake-up packets that one call of "hush" reads from a socket.
// Without the limit knocksRead, a peer that continuously sends wake-up packets could delay the
// datagrams of all peers.
const knocksRead = 4

// The function "hush" reads pending wake-up packets from a socket. The result "knocks" of the
// function "hush" is true if there was a wake-up packet, and the result "alive" is true if the
// connection to the peer still exists. For a peer that sends descriptors instead of wake-up
// packets, the result "alive" is false, and the descriptors stay in the socket.
func hush(fd int, scratch []byte) (knocks, alive bool) {
	var oob [1]byte
	for range knocksRead {
		if first(fd, oob[:]) == packetOther {
			return knocks, false
		}
		n, err := unix.Read(fd, scratch) // the socket is non-blocking
		switch {
		case errors.Is(err, unix.EAGAIN), errors.Is(err, unix.EINTR):
			return knocks, true
		case err != nil || n == 0:
			return knocks, false
		}
		knocks = true
	}
	return knocks, true // more packets will be read the next time
}

// makeRing creates the memory of a ring in the sending process. makeRing seals the memory against
// truncation, because a read beyond the end of a truncated file would raise a signal (SIGBUS) in
// the receiver.
func makeRing(sizeBytes int) (mem []byte, memfd int, err error) {
	memfd, err = unix.MemfdCreate("gobtl-ring", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return nil, -1, os.NewSyscallError("memfd_create", err)
	}
	err = os.NewSyscallError("ftruncate", unix.Ftruncate(memfd, int64(headerBytes+sizeBytes)))
	if err == nil {
		_, err = unix.FcntlInt(uintptr(memfd), unix.F_ADD_SEALS, sealsOfRings)
		err = os.NewSyscallError("fcntl", err)
	}
	if err == nil {
		mem, err = mapShared(memfd, headerBytes+sizeBytes)
	}
	if err != nil {
		unix.Close(memfd)
		return nil, -1, err
	}
	return mem, memfd, nil
}

// mapRing maps the memory of a ring that a peer has passed. mapRing accepts only memory that is
// sealed and has at most mostBytes bytes.
func mapRing(memfd, mostBytes int) ([]byte, error) {
	seals, err := unix.FcntlInt(uintptr(memfd), unix.F_GET_SEALS, 0)
	if err != nil || seals&sealsWanted != sealsWanted {
		return nil, errHello // not memory, or memory that the peer could truncate
	}
	var st unix.Stat_t
	if err := unix.Fstat(memfd, &st); err != nil {
		return nil, err
	}
	size := st.Size - headerBytes
	if size < ringBytesMin || size > int64(mostBytes) || size&(size-1) != 0 {
		return nil, errHello
	}
	return mapShared(memfd, int(st.Size))
}

func mapShared(fd, sizeBytes int) ([]byte, error) {
	mem, err := unix.Mmap(fd, 0, sizeBytes, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_SHARED)
	return mem, os.NewSyscallError("mmap", err)
}
