//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
	"gobtl/fabric/internal/regions"
)

const (
	// The constants in this block limit the messages and I/O vector entries of one raw system call,
	// because the garbage collector might have to wait until the thread returns from the system call.
	txMessages = 32
	txIovecs   = 1024
)

// The type "sender" groups the sends of a batch into messages for the kernel.
type sender struct {
	domain  *domain
	gso     bool
	nameLen uint32    // length of a peer's address
	runs    runBounds // limits of messages that the kernel splits

	msgs  []mmsghdr
	iov   []iovec
	ctl   []cmsg
	first []int // by message: index of the first send; one extra entry at the end
	count int   // messages planned
}

func (t *sender) init(e *endpoint, gso bool) {
	d := e.domain
	t.domain = d
	t.gso = gso
	t.runs = d.runs
	t.nameLen = unix.SizeofSockaddrInet4
	if d.local.Version() == 6 {
		t.nameLen = unix.SizeofSockaddrInet6
	}
	t.msgs = make([]mmsghdr, txMessages)
	t.iov = make([]iovec, txIovecs)
	t.ctl = make([]cmsg, txMessages)
	t.first = make([]int, txMessages+1)
	for i := range t.msgs {
		t.ctl[i] = segmentControl()
	}
}

// A "run" describes the unfinished message (one entry of sendmmsg) to which the method "plan" adds
// datagrams. The kernel splits a message with several datagrams by segmentation offload (GSO). All
// datagrams of a run have the size of the first datagram, except that the last datagram can be
// shorter.
type run struct {
	to          fabric.Addr
	segment     uint64 // size of the first datagram
	bytes       uint64
	segs        int
	open        bool // more datagrams may join
	firstIovecs int
}

// The method "plan" groups the sends at the beginning of a batch into messages, up to the number of
// messages that one system call sends. The result "taken" of the method "plan" is the number of
// sends that it has put into messages. At an invalid send, the method "plan" stops, and returns an
// error with the reason.
func (t *sender) plan(sends []fabric.Send, gso bool) (taken int, err error) {
	var r run
	m, v := -1, 0
	mtu := uint64(t.domain.mtuBytes)
	bufs := &t.domain.buffers
	var region fabric.Region // the region of mem, which is mostly that of the previous send
	var mem []byte
	for i := range sends {
		s := &sends[i]
		if s.Region != region {
			region, mem = s.Region, nil
			if region != 0 {
				mem = t.domain.regions.Get(region)
			}
		}
		var tail []byte
		if region != 0 {
			if tail = regions.Part(mem, s.RegionOff, uint64(s.RegionLen)); tail == nil {
				err = errBadRegion
			}
		}
		size := uint64(s.Len) + uint64(len(tail))
		switch {
		case uint64(s.Buf) >= uint64(bufs.count):
			err = errBadBuf
		case err != nil:
		case uint64(s.Len) > uint64(bufs.len) || size > mtu:
			err = errTooLong
		}
		if err != nil || v+2 > len(t.iov) {
			break
		}
		if r.open && s.To == r.to && size <= r.segment && size > 0 && r.bytes+size <= t.runs.bytes {
			r.segs++
			r.bytes += size
			r.open = size == r.segment && r.segs < t.runs.segments
		} else {
			slot := t.domain.peers.slot(s.To)
			if slot == nil {
				err = errUnknownAddr
				break
			}
			if m+1 == len(t.msgs) {
				break
			}
			t.seal(m, v, &r)
			m++
			t.first[m] = i
			h := &t.msgs[m]
			h.name, h.nameLen = uintptr(unsafe.Pointer(&slot.sock)), t.nameLen
			h.iov = uintptr(unsafe.Pointer(&t.iov[v]))
			r = run{to: s.To, segment: size, bytes: size, segs: 1, open: gso && size > 0, firstIovecs: v}
		}
		if s.Len > 0 || len(tail) == 0 {
			t.iov[v] = iovec{bufs.addr(s.Buf), uintptr(s.Len)}
			v++
		}
		if len(tail) > 0 {
			t.iov[v] = iovec{uintptr(unsafe.Pointer(unsafe.SliceData(tail))), uintptr(len(tail))}
			v++
		}
		taken++
	}
	t.seal(m, v, &r)
	t.count = m + 1
	t.first[t.count] = taken
	return taken, err
}

// The method "seal" finishes the header of the message with the index m. The I/O vector of this
// message ends before the entry with the index v. If m is negative, the method "seal" does nothing.
func (t *sender) seal(m, v int, r *run) {
	if m < 0 {
		return
	}
	h := &t.msgs[m]
	h.iovLen = uintptr(v - r.firstIovecs)
	h.control, h.ctlLen = 0, 0
	if r.segs > 1 {
		c := &t.ctl[m]
		c.setSegment(int(r.segment))
		h.control, h.ctlLen = uintptr(unsafe.Pointer(c)), cmsgBytes
	}
}

// Post implements fabric.Endpoint. The error ErrAgain of Post means that the socket's send buffer
// or the device's send queue is full.
func (e *endpoint) Post(sends []fabric.Send) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	done := 0
	for done < len(sends) {
		planned, bad := e.tx.plan(sends[done:], e.tx.gso)
		sent, errno := e.flush()
		if errno == 0 {
			done += planned
			if bad != nil {
				e.counts.refused++
				return done, bad
			}
			continue
		}
		lo, hi := done+e.tx.first[sent], done+e.tx.first[sent+1]
		done = lo
		if hi-lo == 1 || !maybeOffload(errno) {
			return done, e.sendError(errno)
		}
		if errno == unix.EINVAL && hi-lo > runSegmentsOld {
			e.tx.runs.segments = runSegmentsOld
			continue
		}
		n, err := e.postSingly(sends[lo:hi], errno)
		done += n
		if err != nil {
			return done, err
		}
	}
	return done, nil
}

// The method "flush" passes the messages that the method "plan" has made to the kernel, and returns
// the number of messages that the kernel has accepted. If the kernel has not accepted all messages,
// the result "errno" is the error of the first refused message.
func (e *endpoint) flush() (sent int, errno unix.Errno) {
	again := false
	for sent < e.tx.count {
		n := 0
		if n, errno = e.push(sent); errno == 0 {
			sent += n
			if again {
				e.counts.pending++
				again = false
			}
			continue
		}
		switch {
		case errno == unix.EINTR:
		case errno == unix.ENOSYS && e.sock.have.mmsg:
			e.sock.have.mmsg, e.sock.have.noMmsgWhy = false, errno.Error()
		case again || isFull(errno):
			return sent, errno
		default:
			again = true
		}
	}
	return sent, 0
}

func (e *endpoint) push(from int) (int, unix.Errno) {
	msgs, fd := e.tx.msgs[from:e.tx.count], e.sock.fd
	if len(msgs) > 1 && e.sock.have.mmsg {
		return sendMmsg(fd, msgs)
	}
	m := &msgs[0].msghdr
	if m.iovLen == 1 && m.ctlLen == 0 {
		return 1, sendTo(fd, e.tx.iovecAt(m.iov), m)
	}
	return 1, sendMsg(fd, m)
}

// iovecAt returns the I/O vector entry at an address that the method "plan" has stored in a message
// header.
func (t *sender) iovecAt(addr uintptr) *iovec {
	base := uintptr(unsafe.Pointer(&t.iov[0]))
	return &t.iov[(addr-base)/unsafe.Sizeof(iovec{})]
}

func isFull(errno unix.Errno) bool {
	return errno == unix.EAGAIN || errno == unix.ENOBUFS || errno == unix.ENOMEM
}

// maybeOffload reports whether the kernel could accept the datagrams of a message one by one after
// the whole message has failed with the given error. The kernel returns EIO if the device cannot
// compute checksums. EINVAL or EMSGSIZE can mean that the kernel refuses segmentation offload of
// the message but would accept its datagrams.
func maybeOffload(errno unix.Errno) bool {
	return errno == unix.EIO || errno == unix.EINVAL || errno == unix.EMSGSIZE
}

func (e *endpoint) sendError(errno unix.Errno) error {
	if isFull(errno) {
		e.counts.again++
		return fabric.ErrAgain
	}
	e.counts.refused++
	return newError("send", errno)
}

// postSingly sends the datagrams of a message one by one, after the whole message has failed with
// the error "why". If the kernel accepts the single datagrams and the error "why" is not EMSGSIZE,
// the endpoint stops using UDP_SEGMENT. After EMSGSIZE, the endpoint continues to use UDP_SEGMENT,
// because the path to a different peer might carry datagrams of the size that was refused.
func (e *endpoint) postSingly(sends []fabric.Send, why unix.Errno) (int, error) {
	e.counts.gsoSingly++
	done := 0
	for done < len(sends) {
		planned, _ := e.tx.plan(sends[done:], false) // no error: the same sends were planned before
		sent, errno := e.flush()
		if errno != 0 {
			return done + e.tx.first[sent], e.sendError(errno)
		}
		done += planned
	}
	if why != unix.EMSGSIZE {
		e.tx.gso = false
		e.sock.have.gso, e.sock.have.noGSO = false, "a send failed: "+why.Error()
	}
	return done, nil
}
