package remote

import "gobtl/frag"

// Handle names an exposed region on the wire: opaque, random in its upper part. Tell it to the
// peers that shall write there.
type Handle uint64

// Rights say what peers may do with a region.
type Rights uint8

// The rights. A put with a notice needs Write and Notify.
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

// PutNeeds is what a put with these flags needs.
func PutNeeds(flags frag.Flags) Rights {
	if flags&frag.FlagOp != 0 {
		return Write | Notify
	}
	return Write
}

// Region is memory of this side that peers may access under its Handle.
type Region[F any] struct {
	mem     []byte
	handle  Handle
	rights  Rights
	exposed bool            // by Expose
	only    *Peer[F]        // the peer that alone may use it; nil: all may
	get     *Operation[F]   // whose answer goes there, of what is exposed for that alone
	readers []*Operation[F] // answers to gets that have not left, or not ended if they are gathered
}

// Exposed says whether the region was exposed by Expose and not withdrawn.
func (r *Region[F]) Exposed() bool { return r.exposed }

// Handle is the region's name for peers. It is another one each time that it is exposed.
func (r *Region[F]) Handle() Handle { return r.handle }

// Bytes is the exposed memory.
func (r *Region[F]) Bytes() []byte { return r.mem }

// Reader is an answer that reads the region, nil if there is none.
func (r *Region[F]) Reader() *Operation[F] {
	if len(r.readers) == 0 {
		return nil
	}
	return r.readers[len(r.readers)-1]
}

// Came counts bytes that were written into the region. If they complete a get it returns that one.
func (r *Region[F]) Came(sizeBytes int) *Operation[F] {
	o := r.get
	if o == nil || !o.waits { // it is over, or not sent yet: then nobody can know its handle
		return nil
	}
	if o.arrived += uint32(sizeBytes); o.arrived < uint32(len(r.mem)) {
		return nil
	}
	return o
}

// forget takes an answer, which reads the region no more, off its list.
func (r *Region[F]) forget(o *Operation[F]) {
	for i, reader := range r.readers {
		if reader == o {
			last := len(r.readers) - 1
			r.readers[i] = r.readers[last]
			r.readers[last] = nil
			r.readers = r.readers[:last]
			return
		}
	}
}
