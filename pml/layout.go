package pml

import (
	"math/bits"

	"gobtl/btl"
)

// Layout is where the bytes of a message lie that are not one behind the other (MPI's derived
// datatypes): see Request.Layout. It is called by whoever calls the Layer, and must not change
// while a request with it is under way; many requests may have the same one.
type Layout interface {
	// Bytes is how many there are in all.
	Bytes() int
	// Gather copies the first len(to) of them, which are no more than there are.
	Gather(to []byte)
	// Scatter copies from to where the first len(from) of them lie.
	Scatter(from []byte)
	// Run is the memory of those from byte at on that lie in one piece: at least one, for at is less
	// than Bytes.
	Run(at int) []byte
}

// runBytesMin is the size of runs from which on they are put where they lie, several in a fragment;
// smaller ones of a message that is not eager are copied into one piece first.
const runBytesMin = 4 << 10

// pooledMax is the largest piece of memory that is kept for the next message, in bytes.
const pooledMax = 1 << 21

// room is how many bytes the caller's memory has.
func (r *Request) room() int {
	if r.Layout != nil {
		return r.Layout.Bytes()
	}
	return len(r.mem)
}

// gather copies a whole message to where there is room for it.
func (r *Request) gather(to []byte) {
	if r.Layout == nil {
		copy(to, r.mem)
		return
	}
	r.Layout.Gather(to[:r.size])
}

// scatter copies what has come to the caller's memory, as far as there is room.
func (r *Request) scatter(from []byte) {
	if r.Layout == nil {
		copy(r.mem, from)
		return
	}
	r.Layout.Scatter(from[:min(len(from), r.room())])
}

// runs says whether the bytes of a send are put where they lie.
func (r *Request) runs() bool {
	return r.Layout != nil && r.mem == nil
}

// stage has the bytes of a request with a layout be in one piece: those of a send copied there, or
// room for those of a receive. Sends of long runs need none. The room is cleared: a sender may say
// that it has written what it has not, and nobody else's bytes are to be received then.
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

// gatherRest copies what of a send was not put yet into one piece.
func (l *Layer) gatherRest(r *Request) {
	r.mem, r.staged = l.memory.take(int(r.most-r.moved)), r.moved
	for at := 0; at < len(r.mem); {
		at += copy(r.mem[at:], r.Layout.Run(int(r.moved)+at))
	}
}

// unstage ends that. Memory of a transfer that has failed is not used again.
func (l *Layer) unstage(r *Request, failed bool) {
	if !failed {
		l.memory.give(r.mem)
	}
	r.mem = nil
}

// nextRuns are the runs that the next put of a send has, and how many bytes. The last one of a
// message is put alone, for only a put of one piece has a notice.
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

// give takes back memory that take has returned.
func (y *memory) give(b []byte) {
	if cap(b) == 0 || cap(b) > pooledMax {
		return
	}
	class := bits.Len(uint(cap(b) - 1))
	if idle := &y.buffers[class]; len(*idle) < min(keptMax, keptBytesMax>>class) {
		*idle = append(*idle, b[:cap(b)])
	}
}
