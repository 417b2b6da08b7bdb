package peer

import (
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/payload"
	"gobtl/btl/internal/remote"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

type fragState uint8

// The states of a fragment.
const (
	fragFree   fragState = iota
	fragLent             // with the caller
	fragQueued           // on its endpoint's to-send list
	fragSent             // all packets posted, not all acknowledged
	fragEnded            // waits for the call of OnDone
)

// Fragment is the state of one message or operation to be sent. Only package peer changes a
// Fragment. The Fragment of an application's message or operation is a field of a btl.Fragment,
// which is called its owner.
type Fragment struct {
	Owner any    // the owner's descriptor; nil for a fragment of the transport itself
	own   []byte // memory for large payloads, which the descriptor keeps for its next use
	message

	checked, unmet uint32 // scratch of Checker
}

// message is the part of a Fragment that is cleared before the Fragment is used for the next
// message.
type message struct {
	Ep     *Endpoint
	next   *Fragment
	Data   payload.Payload // in a send buffer, in own, or in the caller's memory
	Err    error
	offset uint64 // of a put
	handle remote.Handle
	size   uint32
	cursor uint32 // number of payload bytes that were put into packets
	cut
	id  uint32
	out uint32 // unacknowledged packets (reliable fabric: sends that read the payload, and the ACK)
	confirmed
	manner
	seg    reliability.Token
	hasSeg bool // the send buffer seg already holds the payload
	tag    uint8
	state  fragState
	signal bool // the fragment ends with its ACK, so that Send never returns Done
	told   bool // an error is reported to the owner, and not by the next Flush
}

// Init records the public Fragment (of package btl) to which f belongs.
func (f *Fragment) Init(owner any) { f.Owner = owner }

// The type "manner" contains those properties of a fragment that an ordinary message does not need.
type manner struct {
	Op     *Operation
	fence  uint32 // number of calls of Endpoint.Fence before the Send
	large  bool   // in the queue of large fragments
	put    bool
	answer bool // this side's answer to an operation of the peer
	urgent bool // counted in sending.urgent, and queued before ordinary fragments
}

// The type "confirmed" describes the ACK for which a fragment waits over a reliable fabric.
type confirmed struct {
	until     seq.Num // number of the last packet
	hasUntold bool    // the last packet also has messages without OnDone
}

// cut contains the chunk sizes of a fragment, in bytes. The chunk sizes are fixed when the first
// chunk is sent.
type cut struct {
	first uint16 // size of the first chunk
	chunk uint16 // size of each chunk after the first
}

// takeFrag returns a descriptor for a fragment of the given size in bytes. The possible errors of
// takeFrag are ErrAgain, ErrTooLarge, and, if the endpoint has ended, the error with which it has
// ended.
func (ds *Descriptors) takeFrag(ep *Endpoint, size int) (*Fragment, error) {
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if size > int(min(ep.FragBytesMax, ds.Config.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d to this peer", errs.ErrTooLarge, size,
			min(ep.FragBytesMax, ds.Config.FragmentBytesMax))
	}
	f := ds.lend(ep)
	if f == nil {
		return nil, ds.Outbox.again(ep, wantsFragment)
	}
	f.size = uint32(size)
	return f, nil
}

// Alloc does the work of btl.Endpoint.Alloc.
func (ds *Descriptors) Alloc(ep *Endpoint, tag uint8, sizeBytes int) (*Fragment, error) {
	if tag > frag.TagUserMax {
		return nil, errs.ErrTag
	}
	f, err := ds.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.tag = tag
	if sizeBytes <= segmentRoom(ep.MTU(), frag.KindFrag) {
		if !ds.Buffers.takeSeg(ep, &f.seg) {
			ds.FreeFrag(f)
			return nil, ds.Outbox.again(ep, wantsFragment)
		}
		f.hasSeg = true
		f.Data.Hold(ds.Port.Arena.Bytes(fabric.Buf(f.seg))[frag.FragHeaderBytes:][:sizeBytes])
		return f, nil
	}
	ds.takeOwn(f, sizeBytes)
	f.Data.Hold(f.own[:sizeBytes])
	return f, nil
}

// Prepare does the work of btl.Endpoint.Prepare.
func (ds *Descriptors) Prepare(ep *Endpoint, tag uint8, mem []byte) (*Fragment, error) {
	if tag > frag.TagUserMax {
		return nil, errs.ErrTag
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
		// PreparePut refuses a put whose end offset exceeds the range of uint64, because the peer would
		// drop such a put without an answer.
		return nil, fmt.Errorf("%w: %d bytes at offset %d", errs.ErrRemoteAccess, len(mem), offset)
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
	if f.state != fragLent || f.Ep != ep {
		return errs.ErrState
	}
	ds.Rest.Stir()
	ds.FreeFrag(f)
	return nil
}
