package btl

import (
	"fmt"

	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Status tells what became of an accepted send.
type Status uint8

// The outcomes of a Send that returns no error.
const (
	// Done: the fragment was sent and its bytes copied; OnDone is not called, the descriptor is gone.
	Done Status = 1
	// Queued: OnDone is called exactly once, with nil when the peer has acknowledged every byte.
	Queued Status = 2
)

type fragState uint8

const (
	fragFree   fragState = iota
	fragLent             // with the caller
	fragQueued           // on its endpoint's to-send list
	fragSent             // every segment posted, not all acknowledged
	fragEnded            // waiting for its OnDone
)

// Fragment describes one message on its way out: a descriptor of the module, lent to the caller by
// Alloc, Prepare or PreparePut, and taken back by an accepted Send or by Free.
type Fragment struct {
	// OnDone is called when a queued fragment ends; the descriptor is gone when it returns. It may be
	// nil.
	OnDone func(f *Fragment, err error)
	// Context is the caller's.
	Context uint64
	// Signal asks for OnDone in any case: Send then never returns Done.
	Signal bool

	ep     *Endpoint
	next   *Fragment
	mem    []byte // the payload: in a send buffer, in own, or the caller's
	own    []byte // memory of the descriptor for large fragments, kept for the next one
	err    error
	offset uint64 // of a put
	source
	handle Handle
	size   uint32
	cursor uint32 // bytes handed to segments
	cut
	id  uint32
	out uint32 // segments not acknowledged; over reliable fabrics not read yet, 1 unconfirmed
	confirmed
	manner
	seg    reliability.Token
	hasSeg bool // seg holds the payload already
	tag    uint8
	state  fragState

	checked, unmet uint32 // scratch of Module.Check: its round, segments in flight not met in it
}

// manner is the properties of a fragment that go beyond a plain message.
type manner struct {
	op     *operation
	vec    *vector // the payload, if it lies in several pieces
	fence  uint32  // calls of Endpoint.Fence before it
	large  bool    // waits among those in chunks
	put    bool
	answer bool // of this side's own making, to what the peer has asked for
}

// confirmed describes the confirmation that a fragment waits for over a reliable fabric.
type confirmed struct {
	until seq.Num // number of the last packet
	mixed bool    // which has messages, too, that nobody waits for
}

// cut says how a fragment is cut into chunks, since the first one was sent.
type cut struct {
	first uint16 // size of that one
	chunk uint16 // and of the others
}

// source is registered memory that a fragment's payload is part of, from which the fabric reads it.
type source struct {
	gather    fabric.Region
	gatherOff uint64 // where in it
	ownRegion bool   // it is registered for this fragment alone
}

// Bytes is the fragment's payload: to be filled by the caller before Send. After an accepted Send
// it belongs to the module. It is nil for a payload in several pieces.
func (f *Fragment) Bytes() []byte { return f.mem }

// Endpoint returns the endpoint that the fragment is for.
func (f *Fragment) Endpoint() *Endpoint { return f.ep }

// takeFrag lends a descriptor for a fragment of size bytes.
func (m *Module) takeFrag(ep *Endpoint, size int) (*Fragment, error) {
	if err := ep.usable(); err != nil {
		return nil, err
	}
	if size > int(min(ep.fragBytesMax, m.cfg.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, size,
			min(ep.fragBytesMax, m.cfg.FragmentBytesMax))
	}
	f, ok := m.frags.lend(ep, m.cfg.FragmentsMax, m.peers.Alone())
	if !ok {
		return nil, ep.again(wantsFragment)
	}
	f.size = uint32(size)
	return f, nil
}

// Alloc lends a fragment of sizeBytes whose memory is the module's: for up to Limits.SegmentBytes
// it is a packet buffer, so that sending copies nothing. Fill Bytes, then Send. Errors: ErrAgain,
// ErrTooLarge, ErrTag, or why the endpoint ended.
func (ep *Endpoint) Alloc(tag Tag, sizeBytes int) (*Fragment, error) {
	if tag > TagMax {
		return nil, ErrTag
	}
	m := ep.m
	f, err := m.takeFrag(ep, sizeBytes)
	if err != nil {
		return nil, err
	}
	f.tag = uint8(tag)
	if sizeBytes <= segmentRoom(ep.mtu, frag.KindFrag) {
		if !m.takeSeg(ep, &f.seg) {
			m.freeFrag(f)
			return nil, ep.again(wantsFragment)
		}
		f.hasSeg = true
		f.mem = m.port.Arena.Bytes(segBuf(f.seg))[frag.FragHeaderBytes:][:sizeBytes]
		return f, nil
	}
	if cap(f.own) < sizeBytes {
		f.own = m.frags.takeLarge(sizeBytes)
	}
	f.mem = f.own[:sizeBytes]
	return f, nil
}

// Prepare lends a fragment whose bytes are read from mem when its packets are sent. Until OnDone
// (or Done) mem must not change. Errors as for Alloc.
func (ep *Endpoint) Prepare(tag Tag, mem []byte) (*Fragment, error) {
	if tag > TagMax {
		return nil, ErrTag
	}
	f, err := ep.m.takeFrag(ep, len(mem))
	if err != nil {
		return nil, err
	}
	f.tag, f.mem = uint8(tag), mem
	ep.m.findRegion(f)
	return f, nil
}

// findRegion notes the registration of the caller's memory, if it has one and the fabric can
// gather.
func (m *Module) findRegion(f *Fragment) {
	if !m.port.Data.Caps().Gather {
		return
	}
	f.gather, f.gatherOff = m.frags.registered.Find(f.mem)
}

// PreparePut lends a fragment that writes mem into a region of the peer, from offset on. No handler
// is called there. OnDone with nil means that all bytes are in place; ErrRemoteAccess, that the
// peer has no such region or does not allow the put (some bytes may have been written, if the
// region was closed meanwhile). Until OnDone, and after a failure, the target bytes are undefined.
// Errors as for Alloc, and ErrRemoteAccess for an offset that is in no region.
func (ep *Endpoint) PreparePut(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	if offset+uint64(len(mem)) < offset {
		// Such a range on the wire would make a malformed packet, which the peer does not answer.
		return nil, fmt.Errorf("%w: %d bytes at offset %d", ErrRemoteAccess, len(mem), offset)
	}
	f, err := ep.m.takeFrag(ep, len(mem))
	if err != nil {
		return nil, err
	}
	f.mem, f.put, f.handle, f.offset = mem, true, target, offset
	ep.m.findRegion(f)
	return f, nil
}

// Free gives back a fragment that is not to be sent after all.
func (ep *Endpoint) Free(f *Fragment) error {
	if f.state != fragLent || f.ep != ep {
		return ErrState
	}
	ep.m.stir()
	ep.m.freeFrag(f)
	return nil
}
