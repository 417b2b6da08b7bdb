//go:build linux

package shm

import (
	"encoding/binary"
	"net"
	"os"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

// lingerTime is how long the last close of a socket of lingering blocks. A test that waits for the
// close takes that long.
const lingerTime = 8 * time.Second

// lingering returns a socket whose last close blocks, because the peer reads nothing and unsent
// data remains.
func lingering(t *testing.T) (fd int) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	fd, err = unix.Socket(unix.AF_INET, unix.SOCK_STREAM|unix.SOCK_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	addr := &unix.SockaddrInet4{Port: l.Addr().(*net.TCPAddr).Port, Addr: [4]byte{127, 0, 0, 1}}
	if err := unix.Connect(fd, addr); err != nil {
		t.Fatal(err)
	}
	chunk := make([]byte, 1<<20)
	for err == nil { // more than the buffers of both sides hold
		err = unix.Sendto(fd, chunk, unix.MSG_DONTWAIT, nil)
	}
	linger := unix.Linger{Onoff: 1, Linger: int32(lingerTime / time.Second)}
	if err := unix.SetsockoptLinger(fd, unix.SOL_SOCKET, unix.SO_LINGER, &linger); err != nil {
		t.Fatal(err)
	}
	return fd
}

// say sends a packet with descriptors. The receiver then has the only references to the
// descriptors.
func say(t *testing.T, fd int, text []byte, fds ...int) {
	t.Helper()
	err := unix.Sendmsg(fd, text, unix.UnixRights(fds...), nil, unix.MSG_DONTWAIT)
	if err != nil {
		t.Fatal(err)
	}
	for _, fd := range fds {
		unix.Close(fd)
	}
}

// ringMemory makes the memory of a ring, as a peer does.
func ringMemory(t *testing.T) (memfd int) {
	t.Helper()
	mem, memfd, err := makeRing(ringBytesMin)
	if err != nil {
		t.Fatal(err)
	}
	r := sendRing{ring: newRing(mem)}
	r.format()
	_ = unix.Munmap(mem)
	return memfd
}

// TestForeignDescriptors checks that the loop does not close a descriptor from a peer if the close
// may block, wherever the peer sends the descriptor.
func TestForeignDescriptors(t *testing.T) {
	greet := func(e *endpoint) []byte {
		b := make([]byte, helloBytes)
		binary.LittleEndian.PutUint64(b, helloMagic)
		binary.LittleEndian.PutUint16(b[8:], e.number)
		return b
	}
	for _, c := range []struct {
		name string
		do   func(t *testing.T, d *domain, e *endpoint, fd int)
	}{
		{"instead of a ring", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, greet(e), lingering(t))
		}},
		{"beside a ring", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, greet(e), ringMemory(t), lingering(t), lingering(t), lingering(t))
		}},
		{"with no hello", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, []byte("x"), lingering(t))
		}},
		{"with a knock", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, greet(e), ringMemory(t))
			d.loop.tend()
			say(t, fd, knockBytes[:])
			say(t, fd, knockBytes[:], lingering(t))
		}},
		{"behind a bad hello", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, []byte("x"))
			if err := unix.Sendmsg(fd, nil, nil, nil, 0); err != nil { // an empty packet
				t.Fatal(err)
			}
			say(t, fd, []byte("y"), lingering(t))
		}},
		{"unheard", func(t *testing.T, d *domain, e *endpoint, fd int) {
			say(t, fd, greet(e), lingering(t))
			d.Close()
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			d, e := openOne(t, fabric.EndpointConfig{})
			fd := connectRaw(t, d)
			began := time.Now()
			c.do(t, d, e, fd)
			for range 100 {
				if !d.closed {
					d.loop.tend()
				}
			}
			d.Close()
			if took := time.Since(began); took > lingerTime/2 {
				t.Errorf("the loop stood for %v", took)
			}
		})
	}
}

// TestForeignDescriptorsCount checks that sockets that wait to be closed count as links of the peer
// until they are closed.
func TestForeignDescriptorsCount(t *testing.T) {
	d, _ := openOne(t, fabric.EndpointConfig{})
	pid := int32(os.Getpid())
	for range 3 {
		say(t, connectRaw(t, d), []byte("x"), lingering(t))
		d.loop.tend()
	}
	if its, all := d.loop.closers.held(pid); its == 0 || its != all || its > 3 {
		t.Errorf("%d of the process, %d of all wait; want up to 3", its, all)
	}
	if d.loop.inLinks != 0 {
		t.Errorf("%d links", d.loop.inLinks)
	}
	d.loop.inMax = 2 // one process may have half
	if d.loop.mayTake(pid) {
		t.Error("a process whose descriptors wait to be closed may have another link")
	}
}
