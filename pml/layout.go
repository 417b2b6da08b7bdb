package pml

import (
	"math/bits"

	"gobtl/btl"
)

// Layout describes the memory of a non-contiguous message, like a derived datatype of MPI: see
// Request.Layout. Its methods are called on the goroutine that calls the Layer. It must not change
// while a request with it is under way. Many requests may share one Layout.
type Layout interface {
	// Bytes returns the total number of bytes.
	Bytes() int
	// Gather copies the first len(to) bytes of the message into to. len(to) is at most Bytes.
	Gather(to []byte)
	// Scatter copies from into the places of the first len(from) bytes of the message.
	Scatter(from []byte)
	// Run returns the contiguous memory that begins with byte at of the message. It has at least
	// one byte, because at is less than Bytes.
	Run(at int) []byte
}

// runBytesMin is the size from which on runs are put directly from their memory, several in a
// fragment. Smaller runs of a message that is not eager are first copied into one piece.
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

// gather copies a whole message into to, which has room for it.
func (r *Request) gather(to []byte) {
	if r.Layout == nil {
		copy(to, r.mem)
		return
	}
	r.Layout.Gather(to[:r.size])
}

// scatter copies received data to the caller's memory, as far as there is room.
func (r *Request) scatter(from []byte) {
	if r.Layout == nil {
		copy(r.mem, from)
		return
	}
	r.Layout.Scatter(from[:min(len(from), r.room())])
}

// runs reports whether the bytes of a send are put directly from their runs.
func (r *Request) runs() bool {
	return r.Layout != nil && r.mem == nil
}

// stage gives a request with a layout a contiguous buffer: a copy of the data of a send, or room
// for the data of a receive. Sends of long runs need no buffer. The buffer of a receive is cleared,
// because a sender may claim to have written bytes that it has not, and the receive must not return
// stale bytes of other messages.
func (l *Layer) stage(r *Request, n uint64, send bool) {
	if r.Layout == nil || n == 0 || send && len(r.Layout.Run(0)) >= runBytesMin {
		return
	}
	r.mem = l.memory.take(int(n))
	if send {
		r.Layout.Gather(r.mem)
	} else {
		clear(r.mem)
	}
}

// gatherRest copies the bytes of a send that were not put yet into one buffer.
func (l *Layer) gatherRest(r *Request) {
	r.mem, r.staged = l.memory.take(int(r.most-r.moved)), r.moved
	for at := 0; at < len(r.mem); {
		at += copy(r.mem[at:], r.Layout.Run(int(r.moved)+at))
	}
}

// unstage releases the buffer of stage. The memory of a failed transfer is not reused.
func (l *Layer) unstage(r *Request, failed bool) {
	if !failed {
		l.memory.give(r.mem)
	}
	r.mem = nil
}

// nextRuns returns the runs of the next put of a send, and their bytes. The last run of a message
// is put alone, because only a put of one piece can carry a notice.
func (l *Layer) nextRuns(r *Request, runs *[btl.PiecesMax][]byte) (count int, bytes uint64) {
	most := uint64(l.m.Limits().FragmentBytesMax)
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
