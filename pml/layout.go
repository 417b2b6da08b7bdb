package pml

import "gobtl/btl"

// Layout describes the memory of a non-contiguous message, like a derived datatype of MPI (see
// Request.Layout). Progress, and the method that begins a request, call the methods of the
// request's Layout until the request is Done. A Layout must not change while a request with the
// Layout is in progress. Several requests can share one Layout.
type Layout interface {
	// Bytes returns the size of the message in bytes.
	Bytes() int
	// Gather fills the slice "to" with bytes of the message, beginning at the byte offset "at" of the
	// message. The message has at least at+len(to) bytes. The Layer calls Gather for each packet to be
	// sent.
	Gather(to []byte, at int)
	// Scatter copies the slice "from" into the message's memory, beginning at the byte offset "at" of
	// the message. The message has at least at+len(from) bytes. The Layer calls Scatter for each
	// packet that arrives.
	Scatter(from []byte, at int)
	// Run returns a contiguous part of the message's memory, which begins at the byte offset "at" of
	// the message. The offset "at" is less than the result of Bytes. If the CPU cannot access the
	// memory directly (for example device memory), Run returns nil, and the Layer uses only Gather and
	// Scatter.
	Run(at int) []byte
}

// runBytesMin is the minimum size of a contiguous run that is sent by a put directly from its
// memory. One put can carry several runs. Runs shorter than runBytesMin are copied into packets
// (packets.go).
const runBytesMin = 4 << 10

// The method "room" returns the size, in bytes, of the memory that the caller has passed to a
// request.
func (r *Request) room() int {
	if r.Layout != nil {
		return r.Layout.Bytes()
	}
	return len(r.mem)
}

// The method "gather" fills the slice "to" with the data of a send, beginning at the byte offset
// "at" of the message.
func (r *Request) gather(to []byte, at int) {
	if r.Layout == nil {
		copy(to, r.mem[at:])
		return
	}
	r.Layout.Gather(to, at)
}

// The method "scatter" copies received data into the memory of a request, beginning at the byte
// offset "at" of the message. Data beyond the end of the request's memory is discarded.
func (r *Request) scatter(from []byte, at int) {
	if r.Layout == nil {
		copy(r.mem[at:], from)
		return
	}
	r.Layout.Scatter(from[:min(len(from), r.room()-at)], at)
}

func (r *Request) shortRuns() bool {
	return r.Layout != nil && len(r.Layout.Run(0)) < runBytesMin
}

// nextRuns returns the contiguous runs for the next put of a send, and the total size of these
// runs. The last run of a message gets a put of its own, because a put with a notification must be
// contiguous. The argument "most" of nextRuns is the largest size of a put in bytes.
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
