package peer

import (
	"fmt"

	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/remote"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

type fragState uint8

// The states of a fragment.
const (
	fragFree   fragState = iota
	FragLent             // with the caller
	FragQueued           // on its endpoint's to-send list
	FragSent             // all packets posted, not all acknowledged
	fragEnded            // waits for the call of OnDone
)

// Fragment is the state of one message or operation to be sent. Only this package changes a
// Fragment. The owner's descriptor, if there is one, contains the Fragment.
type Fragment struct {
	owner any // the owner's descriptor; nil for a fragment of the transport itself

	Ep     *Endpoint
	Next   *Fragment
	Data   payload.Payload // in a send buffer, in own, or in the caller's memory
	own    []byte          // the descriptor's memory for large payloads, kept for reuse
	Err    error
	offset uint64 // of a put
	handle remote.Handle
	size   uint32
	cursor uint32 // bytes handed to segments
	cut
	id  uint32
	Out uint32 // unacknowledged packets (reliable fabric: reads by the fabric, and the ACK)
	confirmed
	manner
	Seg    reliability.Token
	hasSeg bool // Seg holds the payload already
	tag    uint8
	State  fragState
	signal bool // the owner waits for the end, so that Send never returns Done
	told   bool // an error is reported to the owner

	checked, unmet uint32 // scratch of Checker
}

// Init makes a new fragment a part of the owner's descriptor.
func (f *Fragment) Init(owner any) { f.owner = owner }

// Owner returns the argument of Init.
func (f *Fragment) Owner() any { return f.owner }

// manner holds the properties of a fragment that a plain message does not need.
type manner struct {
	Op     *Operation
	fence  uint32 // calls of Endpoint.Fence before it
	large  bool   // in the queue of large fragments
	put    bool
	Answer bool // answer of this side to an operation of the peer
	urgent bool // counted in sending.urgent, and ahead of others
}

// confirmed describes the ACK that a fragment waits for over a reliable fabric.
type confirmed struct {
	until seq.Num // number of the last packet
	mixed bool    // that packet also has messages without OnDone
}

// cut holds the sizes of a fragment's chunks, in bytes, after the first chunk was sent.
type cut struct {
	first uint16 // size of the first chunk
	chunk uint16 // size of the other chunks
}

// Bytes does the work of btl.Fragment.Bytes.
func (f *Fragment) Bytes() []byte { return f.Data.Bytes }

// takeFrag returns a descriptor for a fragment of size bytes. takeFrag returns ErrAgain,
// ErrTooLarge, or the error of an ended endpoint.
func (ds *Descriptors) takeFrag(ep *Endpoint, size int) (*Fragment, error) {
	if err := ep.Usable(); err != nil {
		return nil, err
	}
	if size > int(min(ep.FragBytesMax, ds.Config.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, size,
			min(ep.FragBytesMax, ds.Config.FragmentBytesMax))
	}
	f, ok := ds.lend(ep, ds.Config.FragmentsMax, ds.Peers.Alone())
	if !ok {
		return nil, ds.Outbox.again(ep, wantsFragment)
	}
	f.size = uint32(size)
	return f, nil
}

// Alloc does the work of btl.Endpoint.Alloc.
func (ds *Descriptors) Alloc(ep *Endpoint, tag uint8, sizeBytes int) (*Fragment, error) {
	if tag > frag.TagUserMax {
		return nil, ErrTag
	}
	f, err := ds.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.tag = tag
	if sizeBytes <= segmentRoom(ep.MTU, frag.KindFrag) {
		if !ds.Buffers.takeSeg(ep, &f.Seg) {
			ds.FreeFrag(f)
			return nil, ds.Outbox.again(ep, wantsFragment)
		}
		f.hasSeg = true
		f.Data.Hold(ds.Port.Arena.Bytes(SegBuf(f.Seg))[frag.FragHeaderBytes:][:sizeBytes])
		return f, nil
	}
	if cap(f.own) < sizeBytes {
		f.own = ds.takeLarge(sizeBytes)
	}
	f.Data.Hold(f.own[:sizeBytes])
	return f, nil
}

// Prepare does the work of btl.Endpoint.Prepare.
func (ds *Descriptors) Prepare(ep *Endpoint, tag uint8, mem []byte) (*Fragment, error) {
	if tag > frag.TagUserMax {
		return nil, ErrTag
	}
	f, err := ds.takeFrag(ep, len(mem))
	if err != nil {
		return nil, err
	}
	f.tag = tag
	f.Data.Hold(mem)
	ds.Payloads.Find(&f.Data)
	return f, nil
}

// PreparePut does the work of btl.Endpoint.PreparePut.
func (ds *Descriptors) PreparePut(ep *Endpoint, mem []byte, target remote.Handle, offset uint64,
) (*Fragment, error) {
	if offset+uint64(len(mem)) < offset {
		// The peer would drop a packet whose range exceeds uint64 as malformed, without an answer.
		return nil, fmt.Errorf("%w: %d bytes at offset %d", ErrRemoteAccess, len(mem), offset)
	}
	f, err := ds.takeFrag(ep, len(mem))
	if err != nil {
		return nil, err
	}
	f.put, f.handle, f.offset = true, target, offset
	f.Data.Hold(mem)
	ds.Payloads.Find(&f.Data)
	return f, nil
}

// Free does the work of btl.Endpoint.Free.
func (ds *Descriptors) Free(ep *Endpoint, f *Fragment) error {
	if f.State != FragLent || f.Ep != ep {
		return ErrState
	}
	ds.Rest.Stir()
	ds.FreeFrag(f)
	return nil
}
