//go:build linux

package udp

import (
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/fabric"
)

const (
	rxRows       = 16              // messages of one system call
	rxSegments   = runSegmentsMost // datagrams that the kernel coalesces at most
	messageBytes = 1 << 16
	// The receiver adapts its I/O vectors to the datagram size of a coalesced message only if the
	// message has at least adaptBytes, because a smaller message is cheap to copy.
	adaptBytes = 4 << 10
	// After calmSingles consecutive single datagrams, the receiver prepares its I/O vectors for single
	// datagrams instead of coalesced messages.
	calmSingles = 16
	// After every learnRuns coalesced messages, the receiver adapts the length of its I/O vectors to
	// the longest message of the learnRuns messages.
	learnRuns = 16
	// The last entry of each I/O vector refers to messageBytes bytes of scratch memory, to which the
	// kernel writes the bytes of a message that do not fit in the buffers.
	headroomBytes = 2 * messageBytes
	scratchBytes  = headroomBytes + messageBytes

	errorsInRow = 4 // socket errors that are ignored in one Poll
)

// The type "receiver" holds the posted buffers and the message headers for the kernel. For each
// message that one system call can receive, the receiver has an I/O vector, which consists of
// several buffers followed by scratch memory. The field "wide" is the number of buffers in each I/O
// vector, and the field "stride" is the number of bytes used in each buffer. If "stride" equals the
// size of the datagrams that the kernel has coalesced, the kernel writes each datagram into a
// separate buffer. If "stride" differs from the size of the coalesced datagrams, the receiver
// copies the datagrams to separate buffers.
//
// While only single datagrams arrive, each I/O vector has one buffer, because the kernel processes
// short I/O vectors fastest.
type receiver struct {
	domain *domain
	counts *counts
	mmsg   bool
	source bool

	stack  []fabric.Buf // posted buffers; the latest, still in the cache, is used first
	top    int
	stride int // bytes used of each buffer in an I/O vector, at most the buffer's size
	wide   int // buffers in a row
	burst  int // messages to request
	quiet  int // single datagrams since the last run
	runs   int // runs since wide was last computed
	length int // datagrams in the longest of these runs

	hdr     []mmsghdr
	iov     []iovec
	ctl     []cmsg
	names   []sockaddr
	rows    []fabric.Buf // the buffers of each row, copied from the stack
	scratch []byte       // mapped; scratchBytes for each row

	pending []pendingRecv // ring of datagrams that did not fit the caller's completions
	head    int
	waiting int
	// inScratch is the number of pending datagrams whose bytes are in scratch memory. In the queue
	// "pending", the datagrams whose bytes are in buffers come before the datagrams whose bytes are in
	// scratch memory.
	inScratch int

	lastFrom sockaddr // sender of the last datagram
	lastAddr fabric.Addr
	lastSeq  uint64 // changes of the peer table when lastAddr was looked up
}

// A pendingRecv is a datagram that was received from the kernel and not yet reported by Poll.
type pendingRecv struct {
	done fabric.Completion
	off  int // offset in scratch; -1 if the datagram is in done.Buf
	from sockaddr
}

func (r *receiver) init(e *endpoint, depth int) error {
	r.domain, r.counts = e.domain, &e.counts
	r.mmsg, r.source = e.sock.have.mmsg, e.caps.Source
	r.lastSeq = 1<<64 - 1
	r.stack = make([]fabric.Buf, depth)
	r.burst = 1
	r.narrow()
	r.hdr = make([]mmsghdr, rxRows)
	r.iov = make([]iovec, rxRows*(rxSegments+1))
	r.ctl = make([]cmsg, rxRows)
	r.names = make([]sockaddr, rxRows)
	r.rows = make([]fabric.Buf, rxRows*rxSegments)
	r.pending = make([]pendingRecv, rxRows*rxSegments)
	var err error
	if r.scratch, err = mapMemory(rxRows * scratchBytes); err != nil {
		return err
	}
	for i := range r.hdr {
		h := &r.hdr[i]
		h.control = uintptr(unsafe.Pointer(&r.ctl[i]))
		h.name = uintptr(unsafe.Pointer(&r.names[i]))
	}
	return nil
}

func (r *receiver) release() {
	_ = unix.Munmap(r.scratch) // cannot fail for an address from mmap
	r.scratch = nil
	r.top, r.waiting, r.inScratch = 0, 0, 0
}

// The method "narrow" sets the layout of the next I/O vectors for single datagrams.
func (r *receiver) narrow() {
	r.stride = min(r.domain.buffers.len, messageBytes)
	r.wide = 1
}

// The method "widen" sets the layout of the next I/O vectors for messages that consist of coalesced
// datagrams of the given size.
func (r *receiver) widen(segment int) {
	r.stride = segment
	r.wide = r.widest()
	r.runs, r.length = 0, 0
}

// The method "widest" returns the largest number of datagrams of "stride" bytes that a coalesced
// message can contain.
func (r *receiver) widest() int { return min((messageBytes-1)/r.stride+1, rxSegments) }

// Recv implements fabric.Endpoint.
func (e *endpoint) Recv(bufs []fabric.Buf) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	r := &e.rx
	count := uint64(e.domain.buffers.count)
	for i, b := range bufs {
		if uint64(b) >= count {
			return i, errBadBuf
		}
		if r.top == len(r.stack) {
			return i, fabric.ErrAgain
		}
		r.stack[r.top] = b
		r.top++
	}
	return len(bufs), nil
}

// Poll implements fabric.Endpoint. After a system call that has received a message, Poll returns
// without making a second system call.
func (e *endpoint) Poll(out []fabric.Completion) (int, error) {
	if e.closed {
		return 0, fabric.ErrClosed
	}
	r := &e.rx
	n := 0
	if r.waiting > 0 {
		if n = r.drain(out); r.waiting > 0 {
			return n, nil
		}
	}
	if n == len(out) || r.top == 0 {
		return n, nil
	}
	wide := min(r.wide, r.top)
	rows := r.prepare(wide, len(out)-n)
	got, err := e.receive(rows)
	if err != nil || got == 0 {
		r.burst = 1
		return n, err
	}
	e.domain.sleeper.received()
	if got == rows {
		r.burst = min(4*rows, rxRows)
	}
	return r.deliver(out, n, got, wide), nil
}

func (r *receiver) deliverable() bool {
	return r.waiting > 0 && (r.pending[r.head].off < 0 || r.top > 0)
}

// The method "prepare" fills the headers and I/O vectors for the next messages, and returns the
// number of messages. The argument "wide" of the method "prepare" is the number of buffers in each
// I/O vector, and the argument "room" is the number of completions that the caller can accept.
func (r *receiver) prepare(wide, room int) int {
	rows := 1
	if r.burst > 1 && r.mmsg {
		perRow := 1
		if wide > 1 {
			perRow = max(messageBytes/r.stride, 1)
		}
		rows = max(min(r.burst, (room+perRow-1)/perRow, r.top/wide), 1)
	}
	bufs := &r.domain.buffers
	stride := uintptr(r.stride)
	next := r.top
	for row := range rows {
		iov := r.iov[row*(wide+1) : row*(wide+1)+wide]
		list := r.rows[row*wide : (row+1)*wide]
		for i := range iov {
			next--
			b := r.stack[next]
			list[i] = b
			iov[i] = iovec{bufs.addr(b), stride}
		}
		r.seal(row, row*(wide+1), wide)
	}
	return rows
}

// The method "seal" finishes the header of the message with the index "row". The I/O vector of the
// message consists of "count" entries for buffers, from the index "first" on, and of scratch
// memory.
func (r *receiver) seal(row, first, count int) {
	r.iov[first+count] = iovec{uintptr(unsafe.Pointer(&r.scratch[r.tail(row)])), messageBytes}
	h := &r.hdr[row]
	h.iov, h.iovLen = uintptr(unsafe.Pointer(&r.iov[first])), uintptr(count+1)
	h.ctlLen = cmsgBytes
	h.nameLen = unix.SizeofSockaddrInet6
}

// The method "arrived" returns the size of the message that was received into the I/O vector with
// the index "row". If the message consists of coalesced datagrams, the result "segment" is the size
// of these datagrams, and otherwise 0. The result "done" of the method "arrived" contains those
// fields of the Completion that are the same for all datagrams of the message.
func (r *receiver) arrived(row int) (size, segment int, done fabric.Completion) {
	h := &r.hdr[row]
	done = fabric.Completion{From: fabric.AddrUnknown, Op: fabric.OpRecv, Origin: uint16(row)}
	if r.source {
		done.From = r.from(row)
	}
	return int(h.size), r.ctl[row].segment(h.ctlLen), done
}

// The method "tail" returns the offset in scratch memory at which the last entry of the I/O vector
// with the index "row" begins.
func (r *receiver) tail(row int) int { return row*scratchBytes + headroomBytes }

// The method "receive" receives messages from the socket. If the method "receive" returns an error,
// the endpoint can receive no datagrams any more.
func (e *endpoint) receive(rows int) (int, error) {
	for range errorsInRow {
		var n int
		var errno unix.Errno
		if rows > 1 {
			n, errno = recvMmsg(e.sock.fd, e.rx.hdr[:rows])
		} else {
			n, errno = recvMsg(e.sock.fd, &e.rx.hdr[0])
		}
		switch errno {
		case 0:
			return n, nil
		case unix.EAGAIN:
			return 0, nil
		case unix.EINTR:
		case unix.ENOSYS:
			e.rx.mmsg, rows = false, 1
		case unix.EBADF, unix.ENOTSOCK, unix.EFAULT, unix.EINVAL:
			return 0, newError("recv", errno)
		default:
			e.counts.pending++
		}
	}
	return 0, nil
}

// The method "deliver" writes completions for the messages in the first "rows" I/O vectors to the
// slice "out". The argument n of the method "deliver" is the number of completions that the slice
// "out" contains before the call, and the result is the number after the call. If the slice "out"
// is full, the remaining datagrams are put into the queue "pending".
func (r *receiver) deliver(out []fabric.Completion, n, rows, wide int) int {
	stride := r.stride // the stride of these I/O vectors; adapt changes it for later ones
	r.top -= rows * wide
	for row := range rows {
		size, segment, done := r.arrived(row)
		list := r.rows[row*wide : (row+1)*wide]
		if segment <= 0 || size <= segment {
			if size > stride {
				r.join(row, list, size, stride)
			}
			done.Buf, done.Len = list[0], uint32(size)
			n = r.report(out, n, done, row*scratchBytes)
			r.top += copy(r.stack[r.top:], list[1:])
			r.single(size)
			continue
		}
		placed, off := r.placed(row, list, size, segment, stride)
		for i := range placed {
			lenBytes := min(segment, size)
			size -= lenBytes
			if n < len(out) && r.waiting == 0 {
				complete(&out[n], done.From, list[i], lenBytes, row)
				n++
				continue
			}
			done.Buf, done.Len = list[i], uint32(lenBytes)
			n = r.report(out, n, done, row*scratchBytes+i*stride)
		}
		r.top += copy(r.stack[r.top:], list[placed:])
		if size > 0 {
			n = r.spread(out, n, done, off, size, segment)
		}
	}
	return n
}

func complete(c *fabric.Completion, from fabric.Addr, b fabric.Buf, lenBytes, row int) {
	c.From, c.Buf, c.Len, c.Errno, c.Op = from, b, uint32(lenBytes), 0, fabric.OpRecv
	c.Landed, c.LandedOff, c.Origin = 0, 0, uint16(row)
}

// The result "count" of the method "placed" is the number of datagrams of a coalesced message that
// the kernel has written to separate buffers. The result "off" of the method "placed" is the offset
// in scratch memory of the remaining datagrams of the message.
func (r *receiver) placed(row int, list []fabric.Buf, size, segment, stride int) (count, off int) {
	r.adapt(size, segment)
	if segment == stride {
		return min((size-1)/segment+1, len(list)), r.tail(row)
	}
	r.counts.misfit++
	return 0, r.gather(row, list, size, stride)
}

// The method "gather" copies the message in the buffers of the I/O vector with the index "row" to
// scratch memory, and returns the offset of the copy.
func (r *receiver) gather(row int, list []fabric.Buf, size, stride int) (off int) {
	inside := min(size, len(list)*stride)
	off = r.tail(row) - inside
	to := r.scratch[off : off+inside]
	for i := 0; len(to) > 0; i++ {
		to = to[copy(to, r.domain.buffers.bytes(list[i])[:stride]):]
	}
	return off
}

// The method "join" copies a single datagram that was received into several buffers to the first of
// these buffers. The method "join" drops bytes that exceed the size of the first buffer.
func (r *receiver) join(row int, list []fabric.Buf, size, stride int) {
	bufs := &r.domain.buffers
	whole := bufs.bytes(list[0])
	whole = whole[:min(size, len(whole))]
	to := whole[min(stride, len(whole)):]
	for _, b := range list[1:] {
		to = to[copy(to, bufs.bytes(b)[:stride]):]
	}
	copy(to, r.scratch[r.tail(row):])
}

// The method "spread" writes completions for those datagrams of a coalesced message whose bytes are
// in scratch memory.
func (r *receiver) spread(
	out []fabric.Completion, n int, done fabric.Completion, off, size, segment int,
) int {
	for ; size > 0; size -= segment {
		done.Len = uint32(min(segment, size))
		if n < len(out) && r.waiting == 0 && r.top > 0 {
			r.fetch(&done, off)
			out[n] = done
			n++
		} else {
			r.hold(done, off)
		}
		off += segment
	}
	return n
}

// The method "fetch" takes a posted buffer, and copies a datagram from scratch memory to this
// buffer.
func (r *receiver) fetch(done *fabric.Completion, off int) {
	r.top--
	done.Buf = r.stack[r.top]
	copy(r.domain.buffers.bytes(done.Buf), r.scratch[off:off+int(done.Len)])
}

// The method "report" writes the completion of a datagram that is in a buffer to the slice "out",
// or puts the datagram into the queue "pending" for a later Poll if the slice is full. The scratch
// memory of the datagram's I/O vector is unused from the offset "spare" on.
func (r *receiver) report(out []fabric.Completion, n int, done fabric.Completion, spare int) int {
	if n < len(out) && r.waiting == 0 {
		out[n] = done
		return n + 1
	}
	if r.inScratch == 0 {
		r.hold(done, -1)
		return n
	}
	copy(r.scratch[spare:spare+int(done.Len)], r.domain.buffers.bytes(done.Buf))
	r.stack[r.top] = done.Buf
	r.top++
	r.hold(done, spare)
	return n
}

// The method "hold" puts a received datagram into the queue "pending", from which a later Poll
// reports the datagram.
func (r *receiver) hold(done fabric.Completion, off int) {
	if r.waiting == len(r.pending) { // more datagrams than the kernel is known to coalesce
		r.counts.dropped++
		if off < 0 {
			r.stack[r.top] = done.Buf
			r.top++
		}
		return
	}
	at := (r.head + r.waiting) % len(r.pending)
	from := r.names[done.Origin]
	done.Origin = uint16(rxRows + at) // the I/O vector is reused before that Poll
	r.pending[at] = pendingRecv{done, off, from}
	r.waiting++
	if off >= 0 {
		r.inScratch++
	}
}

// The method "drain" writes completions for the pending datagrams, which earlier calls of Poll have
// received from the kernel, to the slice "out".
func (r *receiver) drain(out []fabric.Completion) (n int) {
	for n < len(out) && r.waiting > 0 {
		p := &r.pending[r.head]
		if p.off >= 0 {
			if r.top == 0 {
				break
			}
			r.fetch(&p.done, p.off)
			r.inScratch--
		}
		out[n] = p.done
		n++
		r.head = (r.head + 1) % len(r.pending)
		r.waiting--
	}
	return n
}

// The methods "single" and "adapt" choose the layout of the next I/O vectors. The method "single"
// is called for each received message that is a single datagram, and the method "adapt" for each
// coalesced message.

func (r *receiver) single(size int) {
	if r.wide == 1 {
		return
	}
	r.quiet++
	if size > r.stride || r.quiet >= calmSingles {
		r.narrow()
	}
}

func (r *receiver) adapt(size, segment int) {
	r.quiet = 0
	fits := segment <= r.domain.buffers.len
	if size >= adaptBytes && fits && (segment != r.stride || r.wide == 1) {
		r.widen(segment)
	}
	if segment != r.stride {
		return
	}
	n := (size-1)/segment + 1
	if n > r.wide {
		r.widen(segment)
		return
	}
	r.length = max(r.length, n)
	if r.runs++; r.runs == learnRuns {
		r.wide = min(2*r.length, r.widest())
		r.runs, r.length = 0, 0
	}
}
