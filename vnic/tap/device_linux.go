package tap

import (
	"errors"
	"fmt"
	"os"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/vnic/offload"
)

const clonePath = "/dev/net/tun"

// tunUSO4 and tunUSO6 are the kernel's TUN_F_USO4 and TUN_F_USO6 (Linux 6.2).
const (
	tunUSO4 = 0x20
	tunUSO6 = 0x40
)

// Config selects the device to open.
type Config struct {
	// Name is the name of the interface, with up to 15 bytes. The kernel replaces "%d" in Name with a
	// number. If an interface with the given Name already exists, Open uses the existing interface,
	// and Close does not remove this interface.
	Name string
	// Queues is the number of queues, 1 to 8. A Queues of 0 means 1.
	Queues int
	// NoOffload disables large frames and checksum offload.
	NoOffload bool
	// If FDs is not empty, Open ignores Name. FDs holds the file descriptors, one for each queue, of a
	// device that a different process has opened. If Open succeeds, the Device owns all descriptors in
	// FDs. Open closes the descriptors beyond the first Queues descriptors, because the kernel would
	// queue frames for open descriptors that nobody reads. If Open fails, FDs stay open and belong to
	// the caller.
	FDs []int
}

// QueuesMax is the largest number of queues of a device.
const QueuesMax = 8

// ErrDevice means that a device cannot be used.
var ErrDevice = errors.New("tap: cannot use the device")

// ErrGone means that the interface of a device has been removed. ErrMoved means that the interface
// of a device has been moved to a different network namespace. An interface in a different network
// namespace still carries frames, but this process cannot read the interface's state.
var (
	ErrGone  = errors.New("tap: the interface has been removed")
	ErrMoved = errors.New("tap: the interface is in another network namespace")
)

// Device is an open TAP device.
type Device struct {
	name    string // guarded by mu; the interface may be renamed
	queues  []*Queue
	headed  bool // each frame has an offload.Header
	offload uint // TUN_F_ flags in use
	given   bool
	mu      sync.Mutex
	closed  bool
}

// Open opens a device. When the device is closed or the process ends, the kernel removes an
// interface that Open has created. The kernel does not remove an interface that existed before
// Open.
func Open(cfg Config) (*Device, error) {
	d := &Device{given: len(cfg.FDs) > 0}
	var err error
	if d.given {
		err = d.adopt(cfg.FDs, max(cfg.Queues, 1))
	} else {
		err = d.create(cfg.Name, max(cfg.Queues, 1))
	}
	if err == nil {
		err = d.setUp(cfg.NoOffload)
	}
	if err != nil {
		if d.given {
			d.queues = nil // the descriptors still belong to the caller
		}
		d.Close()
		return nil, err
	}
	if d.given {
		for _, fd := range cfg.FDs[len(d.queues):] {
			unix.Close(fd)
		}
	}
	return d, nil
}

// create opens the queues of a device by name. create tries several sets of flags, because an
// existing interface must be opened with the flags of its creation.
func (d *Device) create(name string, queues int) error {
	if queues > QueuesMax {
		return fmt.Errorf("%w: %d queues, at most %d", ErrDevice, queues, QueuesMax)
	}
	base := uint16(unix.IFF_TAP | unix.IFF_NO_PI)
	tries := []uint16{base | unix.IFF_VNET_HDR, base}
	if queues > 1 {
		tries = []uint16{base | unix.IFF_VNET_HDR | unix.IFF_MULTI_QUEUE}
	} else {
		tries = append(tries, base|unix.IFF_VNET_HDR|unix.IFF_MULTI_QUEUE, base|unix.IFF_MULTI_QUEUE)
	}
	var err error
	for _, flags := range tries {
		if err = d.openAll(name, flags, queues); err == nil {
			d.headed = flags&unix.IFF_VNET_HDR != 0
			return nil
		}
		d.closeQueues()
		if errors.Is(err, unix.EPERM) || errors.Is(err, unix.EBUSY) {
			break
		}
	}
	switch {
	case errors.Is(err, os.ErrNotExist):
		return fmt.Errorf("%w %s: %w; load the kernel's module tun", ErrDevice, name, err)
	case errors.Is(err, unix.EPERM):
		return fmt.Errorf("%w %s: %w; it needs CAP_NET_ADMIN, or a device that was made for this user "+
			"(ip tuntap add mode tap user NAME)", ErrDevice, name, err)
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w %s: %s: %w; it must be readable and writable for this user, or the device "+
			"be handed over open", ErrDevice, name, clonePath, err)
	}
	return fmt.Errorf("%w %s: %w", ErrDevice, name, err)
}

func (d *Device) openAll(name string, flags uint16, queues int) error {
	for range queues {
		fd, err := unix.Open(clonePath, unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
		if err != nil {
			return err
		}
		d.queues = append(d.queues, newQueue(fd))
		ifr, err := unix.NewIfreq(name)
		if err != nil {
			return fmt.Errorf("interface name %q: %w", name, err)
		}
		ifr.SetUint16(flags)
		if err := unix.IoctlIfreq(fd, unix.TUNSETIFF, ifr); err != nil {
			return err
		}
		name = ifr.Name()
	}
	d.name = name
	return nil
}

// adopt makes the first descriptors in the slice "fds" the queues of the device. Unless all
// descriptors in the slice "fds" belong to the same TAP device, adopt returns an error.
func (d *Device) adopt(fds []int, queues int) error {
	for i, fd := range fds {
		ifr, err := unix.NewIfreq("")
		if err == nil {
			err = unix.IoctlIfreq(fd, unix.TUNGETIFF, ifr)
		}
		if err != nil {
			return fmt.Errorf("%w: descriptor %d is no TAP device: %w", ErrDevice, fd, err)
		}
		flags := ifr.Uint16()
		headed := flags&unix.IFF_VNET_HDR != 0
		if flags&unix.IFF_TAP == 0 || flags&unix.IFF_NO_PI == 0 || i > 0 &&
			(ifr.Name() != d.name || headed != d.headed) {
			return fmt.Errorf("%w: descriptor %d (%s): want IFF_TAP and IFF_NO_PI, and the same "+
				"device for all queues", ErrDevice, fd, ifr.Name())
		}
		d.name, d.headed = ifr.Name(), headed
	}
	for _, fd := range fds[:min(len(fds), queues)] {
		if err := unix.SetNonblock(fd, true); err != nil {
			return fmt.Errorf("%w: descriptor %d: %w", ErrDevice, fd, err)
		}
		d.queues = append(d.queues, newQueue(fd))
	}
	return nil
}

// Check asks the kernel whether the interface exists, and updates the name of a renamed interface.
// After Close, the error of Check is os.ErrClosed. Before Close, all errors of Check wrap ErrGone.
func (d *Device) Check() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	ifr, err := unix.NewIfreq("")
	if err == nil {
		err = unix.IoctlIfreq(d.queues[0].fd, unix.TUNGETIFF, ifr)
	}
	if err != nil {
		return fmt.Errorf("%w: %s: %w", ErrGone, d.name, err)
	}
	d.name = ifr.Name()
	return nil
}

// setUp sets the size and the byte order of the headers, and finds the kinds of large frames that
// the kernel supports.
func (d *Device) setUp(noOffload bool) error {
	if !d.headed {
		return nil
	}
	for _, q := range d.queues {
		q.head = offload.HeaderBytes
		if err := unix.IoctlSetPointerInt(q.fd, unix.TUNSETVNETHDRSZ, offload.HeaderBytes); err != nil {
			return fmt.Errorf("%w %s: header of %d bytes: %w", ErrDevice, d.name, offload.HeaderBytes, err)
		}
		_ = unix.IoctlSetPointerInt(q.fd, unix.TUNSETVNETLE, 1)
	}
	tso := uint(unix.TUN_F_CSUM | unix.TUN_F_TSO4 | unix.TUN_F_TSO6 | unix.TUN_F_TSO_ECN)
	tries := []uint{tso | tunUSO4 | tunUSO6, tso, unix.TUN_F_CSUM, 0}
	if noOffload {
		tries = []uint{0}
	}
	var err error
	for _, flags := range tries {
		if err = d.setOffload(flags); err == nil {
			return nil
		}
	}
	return fmt.Errorf("%w %s: no offload at all: %w", ErrDevice, d.name, err)
}

func (d *Device) setOffload(flags uint) error {
	if err := unix.IoctlSetInt(d.queues[0].fd, unix.TUNSETOFFLOAD, int(flags)); err != nil {
		return err
	}
	d.offload = flags
	return nil
}

// Name returns the present name of the interface.
func (d *Device) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.name
}

// Queues returns the queues of the device.
func (d *Device) Queues() []*Queue { return d.queues }

// Headed reports whether each frame has an offload.Header.
func (d *Device) Headed() bool { return d.headed }

// LargeTCP reports whether the device supports TCP frames larger than the MTU in both directions.
func (d *Device) LargeTCP() bool { return d.offload&unix.TUN_F_TSO4 != 0 }

// LargeUDP reports whether the device supports UDP frames larger than the MTU in both directions.
func (d *Device) LargeUDP() bool { return d.offload&tunUSO4 != 0 }

// Given reports whether the device was opened from descriptors that a different process has opened
// (Config.FDs).
func (d *Device) Given() bool { return d.given }

// SetCarrier sets the carrier state of the interface.
func (d *Device) SetCarrier(on bool) error {
	var v int32
	if on {
		v = 1
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	_, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(d.queues[0].fd), unix.TUNSETCARRIER,
		uintptr(unsafe.Pointer(&v)))
	if errno != 0 {
		return os.NewSyscallError("TUNSETCARRIER", errno)
	}
	return nil
}

// Close closes all queues. During Close, no goroutine may be in Read or Write of a queue of the
// device.
func (d *Device) Close() {
	d.mu.Lock()
	defer d.mu.Unlock()
	if !d.closed {
		d.closed = true
		d.closeQueues()
	}
}

func (d *Device) closeQueues() {
	for _, q := range d.queues {
		unix.Close(q.fd)
	}
	d.queues = nil
}

const writeParts = offload.FramesMax + 1

// Queue is a queue of a device. The file descriptor of a queue is nonblocking.
type Queue struct {
	fd   int
	head int
	hdr  [offload.HeaderBytes]byte
	iov  [writeParts + 1]unix.Iovec
}

func newQueue(fd int) *Queue { return &Queue{fd: fd} }

// FD returns the queue's file descriptor, for poll or epoll.
func (q *Queue) FD() int { return q.fd }

// Read reads the next frame into b. If no frame is available, the result n of Read is 0. Most
// errors of Read mean that the device no longer exists, but some errors are temporary, so that a
// later Read succeeds. Read never blocks, and therefore uses a raw system call that Go's scheduler
// does not track.
func (q *Queue) Read(b []byte) (h offload.Header, n int, err error) {
	q.iov[0] = unix.Iovec{Base: &q.hdr[0]}
	q.iov[0].SetLen(q.head)
	q.iov[1] = unix.Iovec{Base: &b[0]}
	q.iov[1].SetLen(len(b))
	first := 0
	if q.head == 0 {
		first = 1
	}
	got, _, errno := unix.RawSyscall(unix.SYS_READV, uintptr(q.fd),
		uintptr(unsafe.Pointer(&q.iov[first])), uintptr(2-first))
	switch errno {
	case 0:
	case unix.EAGAIN, unix.EINTR:
		return h, 0, nil
	default:
		return h, 0, os.NewSyscallError("read", errno)
	}
	if q.head > 0 {
		h = offload.ParseHeader(q.hdr[:])
	}
	return h, max(int(got)-q.head, 0), nil
}

// Write writes one frame that consists of f.Parts. An error of Write means that the kernel has
// refused this frame, but the kernel might accept the next frame.
func (q *Queue) Write(f *offload.Joined) error {
	if len(f.Parts) > writeParts || q.head == 0 && f.Header != (offload.Header{}) {
		return unix.EINVAL
	}
	n := 0
	if q.head > 0 {
		f.Header.Put(q.hdr[:])
		q.iov[0] = unix.Iovec{Base: &q.hdr[0]}
		q.iov[0].SetLen(q.head)
		n = 1
	}
	for _, p := range f.Parts {
		if len(p) > 0 {
			q.iov[n] = unix.Iovec{Base: &p[0]}
			q.iov[n].SetLen(len(p))
			n++
		}
	}
	for {
		_, _, errno := unix.RawSyscall(unix.SYS_WRITEV, uintptr(q.fd),
			uintptr(unsafe.Pointer(&q.iov[0])), uintptr(n))
		switch errno {
		case 0:
			return nil
		case unix.EINTR:
		default:
			return errno
		}
	}
}

// Twin returns a second Queue with the same file descriptor as q, for use by a second goroutine.
// The Queue that Twin returns must not be used after Device.Close.
func (q *Queue) Twin() *Queue { return &Queue{fd: q.fd, head: q.head} }
