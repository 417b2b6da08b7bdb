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

// The kernel's TUN_F_USO4 and TUN_F_USO6 (Linux 6.2).
const (
	tunUSO4 = 0x20
	tunUSO6 = 0x40
)

// Config says which device to open.
type Config struct {
	// Name is the name of the interface, up to 15 bytes. For "%d" the kernel fills in a number. An
	// interface that the administrator has made is used, and remains when the Device is closed.
	Name string
	// Queues is the number of queues, 1 to 8. 0 means 1.
	Queues int
	// NoOffload turns large frames and checksum offload off.
	NoOffload bool
	// FDs replaces Name. It has the descriptors of a device that another process has opened, one
	// for each queue. If Open succeeds the Device owns them; otherwise they are unchanged.
	// Descriptors beyond Queues are closed, because the kernel would pass them frames that are
	// never read.
	FDs []int
}

// QueuesMax bounds the queues of a device.
const QueuesMax = 8

// ErrDevice is wrapped by the errors of an unusable device.
var ErrDevice = errors.New("tap: cannot use the device")

// ErrGone is wrapped when the device has been removed under us, ErrMoved when it is in another
// network namespace, where it goes on carrying frames but cannot be looked at from here.
var (
	ErrGone  = errors.New("tap: the interface has been removed")
	ErrMoved = errors.New("tap: the interface is in another network namespace")
)

// Device is an open TAP device.
type Device struct {
	name    string // guarded by mu; it may be renamed
	queues  []*Queue
	headed  bool // frames have a Header
	offload uint // TUN_F_ flags in use
	given   bool
	mu      sync.Mutex
	closed  bool
}

// Open opens a device. The kernel removes the device when it is closed, and when the process ends
// in any way, unless another process has made it.
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
			d.queues = nil // they are not ours, or not yet
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

// create opens the queues of a device by name. A device of the administrator must be opened with
// the flags with which it was made, so several sets of flags are tried.
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

// adopt checks passed descriptors, and takes them over if all are valid.
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

// Check asks the kernel whether the device is still there, and follows it when it was renamed. The
// error wraps ErrGone.
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

// setUp sets the size and the byte order of the headers, and finds out which frames may be large.
func (d *Device) setUp(noOffload bool) error {
	if !d.headed {
		return nil
	}
	for _, q := range d.queues {
		q.head = offload.HeaderBytes
		if err := unix.IoctlSetPointerInt(q.fd, unix.TUNSETVNETHDRSZ, offload.HeaderBytes); err != nil {
			return fmt.Errorf("%w %s: header of %d bytes: %w", ErrDevice, d.name, offload.HeaderBytes, err)
		}
		// Kernels without it have the machine's order, which is this one where Go runs on Linux but for
		// some mainframes.
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

// Name is the interface's name.
func (d *Device) Name() string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.name
}

// Queues returns the queues.
func (d *Device) Queues() []*Queue { return d.queues }

// Headed reports whether each frame is preceded by a Header.
func (d *Device) Headed() bool { return d.headed }

// LargeTCP and LargeUDP say which frames may be larger than the MTU, both ways.
func (d *Device) LargeTCP() bool { return d.offload&unix.TUN_F_TSO4 != 0 }

// LargeUDP is LargeTCP for UDP.
func (d *Device) LargeUDP() bool { return d.offload&tunUSO4 != 0 }

// Given reports whether the device was opened from descriptors of another process.
func (d *Device) Given() bool { return d.given }

// SetCarrier tells the kernel whether there is a carrier.
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

// Keep sets whether the interface and its addresses remain when the device is closed. It reports
// whether this was a change. An interface of the administrator remains in any case.
func (d *Device) Keep(on bool) (news bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return false, os.ErrClosed
	}
	ifr, err := unix.NewIfreq("")
	if err == nil {
		err = unix.IoctlIfreq(d.queues[0].fd, unix.TUNGETIFF, ifr)
	}
	if err != nil {
		return false, os.NewSyscallError("TUNGETIFF", err)
	}
	if was := ifr.Uint16()&unix.IFF_PERSIST != 0; was == on {
		return false, nil
	}
	v := 0
	if on {
		v = 1
	}
	err = unix.IoctlSetInt(d.queues[0].fd, unix.TUNSETPERSIST, v)
	return err == nil, os.NewSyscallError("TUNSETPERSIST", err)
}

// Close closes all queues. No Read or Write may be under way.
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

// writeParts bounds the parts of one Write, without the header.
const writeParts = offload.FramesMax + 1

// Queue is a queue of a device. Its descriptor does not block.
type Queue struct {
	fd   int
	head int
	hdr  [offload.HeaderBytes]byte
	iov  [writeParts + 1]unix.Iovec
}

func newQueue(fd int) *Queue { return &Queue{fd: fd} }

// FD is the queue's descriptor, to wait for.
func (q *Queue) FD() int { return q.fd }

// Read reads the next frame into b. n is 0 if there is none. An error usually means that the device
// is gone; after a temporary error a later Read succeeds. The call does not block, so Go's
// scheduler need not know of it.
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

// Write writes a frame from its parts. An error means that the kernel refused this frame; a later
// frame may be accepted.
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

// Twin returns another Queue of the same descriptor, for another goroutine. It ends with the first.
func (q *Queue) Twin() *Queue { return &Queue{fd: q.fd, head: q.head} }
