package pml

import (
	"math/bits"

	"gobtl/btl"
)

// Layout describes the memory of a non-contiguous message, like a derived datatype of MPI: see
// Request.Layout. Its methods are called on the goroutine that calls the Layer, by the call that
// begins the request and by Progress, until the request is Done. It must not change while a request
// with it is under way. Many requests may share one Layout.
type Layout interface {
	// Bytes returns the total number of bytes.
	Bytes() int
	// Gather copies the bytes of the message from at on into to, until to is full. The message has
	// at least at+len(to) bytes. Gather is called for each packet while it is filled.
	Gather(to []byte, at int)
	// Scatter copies from into the places of the bytes of the message from at on. The message has at
	// least at+len(from) bytes. Scatter is called for each packet when it has arrived.
	Scatter(from []byte, at int)
	// Run returns the contiguous memory that begins with byte at of the message. at is less than
	// Bytes. nil says that this process cannot access the bytes, as if they were on a device: then
	// Gather and Scatter alone copy them.
	Run(at int) []byte
}

// runBytesMin is the size from which on the runs of a send are put directly from their memory,
// several in a fragment. Smaller runs are packed into packets: see packets.go.
const runBytesMin = 4 << 10

// pooledMax is the largest piece of memory that is kept for the next message, in bytes.
const pooledMax = 1 << 21

// room returns the size of the caller's memory in bytes.
func (r *Request) room() int {
	if r.Layout != nil {
		return r.Layout.Bytes()
	}
	return len(r.mem)
}

// gather copies bytes of a send from at on into to, until to is full.
func (r *Request) gather(to []byte, at int) {
	if r.Layout == nil {
		copy(to, r.mem[at:])
		return
	}
	r.Layout.Gather(to, at)
}

// scatter copies received data to the caller's memory, from byte at of the message on, as far as
// there is room.
func (r *Request) scatter(from []byte, at int) {
	if r.Layout == nil {
		copy(r.mem[at:], from)
		return
	}
	r.Layout.Scatter(from[:min(len(from), r.room()-at)], at)
}

// shortRuns reports whether a send begins with a run that is too short for puts.
func (r *Request) shortRuns() bool {
	return r.Layout != nil && len(r.Layout.Run(0)) < runBytesMin
}

// nextRuns returns the runs of the next put of a send, and their bytes. The last run of a message
// is put alone, because only a put of one piece can carry a notice. A put has at most most bytes.
func (r *Request) nextRuns(most uint64, runs *[btl.PiecesMax][]byte) (count int, bytes uint64) {
	if r.Layout == nil {
		bytes = min(r.most-r.moved, most)
		runs[0] = r.mem[r.moved : r.moved+bytes]
		return 1, bytes
	}
	for count < len(runs) && bytes < most && r.moved+bytes < r.most {
		at := r.moved + bytes
		run := r.Layout.Run(int(at))
		n := min(uint64(len(run)), most-bytes, r.most-at)
		if count > 0 && at+n == r.most {
			break
		}
		runs[count], bytes = run[:n], bytes+n
		count++
	}
	return count, bytes
}

// take returns n bytes of memory.
func (y *memory) take(n int) []byte {
	if n > pooledMax {
		return make([]byte, n)
	}
	class := bits.Len(uint(n - 1))
	idle := &y.buffers[class]
	if last := len(*idle) - 1; last >= 0 {
		var b []byte
		b, *idle = (*idle)[last], (*idle)[:last]
		return b[:n]
	}
	return make([]byte, n, 1<<class)
}

// give returns memory of take to the pool.
func (y *memory) give(b []byte) {
	if cap(b) == 0 || cap(b) > pooledMax {
		return
	}
	class := bits.Len(uint(cap(b) - 1))
	if idle := &y.buffers[class]; len(*idle) < min(keptMax, keptBytesMax>>class) {
		*idle = append(*idle, b[:cap(b)])
	}
}
