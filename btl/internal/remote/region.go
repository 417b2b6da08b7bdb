package remote

import "gobtl/frag"

// Handle identifies an exposed region on the wire. A Handle is opaque, and its upper bits are
// random. The application sends the Handle to those peers that are allowed to access the region.
type Handle uint64

// Rights is the set of operations that peers may perform on a region.
type Rights uint8

// The rights. A put with a notification needs Write and Notify.
const (
	Write  Rights = 1 << iota // puts
	Read                      // gets
	Atomic                    // atomic operations
	Notify                    // notices of puts
	All    = Write | Read | Atomic | Notify
)

func (r Rights) String() string {
	text := ""
	for i, name := range [...]string{"write", "read", "atomic", "notify"} {
		if r&(1<<i) == 0 {
			continue
		}
		if text != "" {
			text += ", "
		}
		text += name
	}
	if text == "" {
		return "none"
	}
	return text
}

// PutNeeds returns the rights that a put with the given flags needs.
func PutNeeds(flags frag.Flags) Rights {
	if flags&frag.FlagOp != 0 {
		return Write | Notify
	}
	return Write
}

// Region is memory of this side that peers can access by the region's Handle.
type Region[F any] struct {
	mem     []byte
	handle  Handle
	rights  Rights
	exposed bool            // exposed by Expose
	only    *Peer[F]        // the only peer with access, or nil for all peers
	get     *Operation[F]   // the get for whose answer the region is exposed, or nil
	readers []*Operation[F] // answers to gets that possibly still read the region
	written uint64          // bytes that puts have written since the latest call of Expose
}

// Exposed reports whether the region was exposed by Expose, and was not withdrawn since.
func (r *Region[F]) Exposed() bool { return r.exposed }

// Handle returns the number by which peers identify the region. Each call of Expose creates a new
// Handle.
func (r *Region[F]) Handle() Handle { return r.handle }

// Bytes returns the exposed memory.
func (r *Region[F]) Bytes() []byte { return r.mem }

// Written returns the number of bytes that puts have written to the region since it was exposed.
func (r *Region[F]) Written() uint64 { return r.written }

// Reader returns an answer that is reading the region, or nil if no answer is reading the region.
func (r *Region[F]) Reader() *Operation[F] {
	if len(r.readers) == 0 {
		return nil
	}
	return r.readers[len(r.readers)-1]
}

// Came counts bytes that a peer has written to the region. If the written bytes complete a get,
// Came returns the get, and otherwise nil.
func (r *Region[F]) Came(sizeBytes int) *Operation[F] {
	r.written += uint64(sizeBytes)
	o := r.get
	if o == nil || !o.waits { // no peer knows the handle, as the get has ended or was not sent
		return nil
	}
	if o.arrived += uint32(sizeBytes); o.arrived < uint32(len(r.mem)) {
		return nil
	}
	return o
}

// The method "forget" removes an answer from the answers that read the region.
func (r *Region[F]) forget(o *Operation[F]) {
	last := len(r.readers) - 1
	moved := r.readers[last]
	r.readers[o.reader], moved.reader = moved, o.reader
	r.readers[last] = nil
	r.readers = r.readers[:last]
}
