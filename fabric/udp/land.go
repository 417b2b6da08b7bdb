//go:build linux

package udp

import (
	"unsafe"

	"gobtl/fabric"
)

// Single datagrams are received directly into the memory that Land has set if they have at least
// landMinBytes. For smaller datagrams, it saves more time to receive several messages by one system
// call than to avoid a copy.
const landMinBytes = 16 << 10

// The type landing is the direct-receive memory, which receives the bytes of datagrams that follow
// their heads. For direct receive, the I/O vector of a message has two entries for each datagram,
// whose lengths are right only for datagrams of the expected size (stride). Datagrams of any other
// size are copied to their buffers.
type landing struct {
	mem     []byte
	head    int // bytes of each datagram that stay in its buffer
	off     int // where the next datagram lands
	waiting int // directly received datagrams in receiver.pending

	// The fields slots and rest describe the I/O vector that was prepared most recently. The field
	// slots is the number of datagrams that this I/O vector can receive directly. The field rest is
	// the number of bytes of direct-receive memory that remain behind the datagrams that slots
	// counts.
	slots, rest int
}

var _ fabric.Lander = (*endpoint)(nil)

// Land implements fabric.Lander. Datagrams are received directly only if they have the expected
// size. These are the datagrams of a coalesced message, including a shorter last one, and single
// datagrams that fill a buffer.
func (e *endpoint) Land(mem []byte, headBytes int) bool {
	l := &e.rx.land
	if e.closed || l.waiting > 0 {
		return false
	}
	*l = landing{mem: mem, head: max(headBytes, 0)}
	return true
}

// The method lands reports whether the next message will be received directly into the memory that
// Land has set, and computes the fields slots and rest.
func (r *receiver) lands(wide int) bool {
	l := &r.land
	l.slots, l.rest = 0, 0
	free := len(l.mem) - l.off
	body := r.stride - l.head
	if free <= 0 || body <= 0 || r.wide == 1 && r.stride < landMinBytes {
		return false
	}
	l.slots = min(wide, free/body)
	if l.slots < wide {
		l.rest = free - l.slots*body
	}
	return true
}

// prepareLanding works like prepare, for one message that is received directly.
func (r *receiver) prepareLanding(wide int) {
	l := &r.land
	bufs := &r.domain.buffers
	body := r.stride - l.head
	to := uintptr(unsafe.Pointer(&l.mem[l.off]))
	list := r.rows[:wide]
	v := 0
	for i := range list {
		b := r.stack[r.top-1-i]
		list[i] = b
		from := bufs.addr(b)
		switch {
		case i < l.slots:
			r.iov[v] = iovec{from, uintptr(l.head)}
			r.iov[v+1] = iovec{to, uintptr(body)}
			to += uintptr(body)
			v += 2
		case i == l.slots && l.rest > 0:
			r.iov[v] = iovec{from, uintptr(l.head)}
			r.iov[v+1] = iovec{to, uintptr(l.rest)}
			r.iov[v+2] = iovec{from + uintptr(l.head+l.rest), uintptr(body - l.rest)}
			v += 3
		default:
			r.iov[v] = iovec{from, uintptr(r.stride)}
			v++
		}
	}
	r.seal(0, 0, v)
}

// deliverLanded works like deliver, for a message that was received directly.
func (r *receiver) deliverLanded(out []fabric.Completion, n, wide int) int {
	l := &r.land
	stride := r.stride
	r.top -= wide
	size, segment, done := r.arrived(0)
	list := r.rows[:wide]
	run := segment > 0 && size > segment
	placed, off := 1, 0
	switch {
	case run && segment == stride:
		placed, off = min((size-1)/segment+1, wide), r.tail(0)
	case run:
		r.counts.misfit++
		placed, off = 0, r.gatherLanded(list, size, stride)
	case size > l.head && (size != stride || l.slots == 0):
		off = r.gatherLanded(list, size, stride)
		copy(r.domain.buffers.bytes(list[0]), r.scratch[off:off+size])
		l.slots, l.rest = 0, 0
	}
	next := l.off
	for i := range placed {
		lenBytes := size
		if run {
			lenBytes = min(segment, size)
		}
		size -= lenBytes
		landed, at := r.landOne(list[i], i, lenBytes, stride)
		next += landed
		if n < len(out) && r.waiting == 0 {
			complete(&out[n], done.From, list[i], lenBytes, landed, at, 0)
			n++
			continue
		}
		complete(&done, done.From, list[i], lenBytes, landed, at, 0)
		n = r.report(out, n, done, i*stride)
	}
	l.off = next
	r.top += copy(r.stack[r.top:], list[placed:])
	if size > 0 {
		done.Landed, done.LandedOff = 0, 0
		n = r.spread(out, n, done, off, size, segment)
	}
	if run {
		r.adapt(int(r.hdr[0].size), segment)
	} else {
		r.single(int(r.hdr[0].size))
	}
	return n
}

// landOne returns how many bytes of datagram i were received directly, and the offset of these
// bytes. If bytes in the direct-receive memory belong in the datagram's buffer, landOne copies the
// bytes to the buffer.
func (r *receiver) landOne(b fabric.Buf, i, lenBytes, stride int) (landed, at int) {
	l := &r.land
	at = l.off + i*(stride-l.head)
	body := lenBytes - l.head
	switch {
	case body <= 0 || i > l.slots || i == l.slots && l.rest == 0:
	case i < l.slots || body <= l.rest:
		return body, at
	default:
		copy(r.domain.buffers.bytes(b)[l.head:], l.mem[at:at+l.rest])
	}
	return 0, 0
}

// gatherLanded works like gather, for a message that was received directly.
func (r *receiver) gatherLanded(list []fabric.Buf, size, stride int) (off int) {
	l := &r.land
	inside := min(size, len(list)*stride)
	off = r.tail(0) - inside
	to := r.scratch[off : off+inside]
	for i := 0; len(to) > 0; i++ {
		piece := to[:min(stride, len(to))]
		copy(piece, r.domain.buffers.bytes(list[i])[:stride])
		landed := stride - l.head
		if i == l.slots {
			landed = l.rest
		}
		if i <= l.slots && len(piece) > l.head {
			at := l.off + i*(stride-l.head)
			copy(piece[l.head:], l.mem[at:at+landed])
		}
		to = to[len(piece):]
	}
	return off
}
