package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// An operation on a peer's memory is sent as a fragment, with the same queues, sequence
// numbers, retransmissions and OnDone as a message. The additional state of an operation is
// Fragment.op, which package remote manages. An operation that waits for a reply counts the
// reply in Fragment.out, like an unacknowledged packet. The code for the requester of an
// operation is in remote_ask.go, and the code for its target is in remote_serve.go.

// operation is the additional state of a fragment that is neither a message nor a put without a
// completion notification.
type operation = remote.Operation[*Fragment]

// memory returns the endpoint's state of memory operations in both directions, which the first call
// makes. For a nil endpoint, memory returns nil.
func (ep *Endpoint) memory() *remote.Peer[*Fragment] {
	if ep == nil {
		return nil
	}
	if ep.remote == nil {
		ep.remote = remote.NewPeer[*Fragment]()
	}
	return ep.remote
}

// AccessReason says why a peer has refused a memory operation.
type AccessReason uint8

// The reasons for refusing a memory operation.
const (
	// ReasonRegion means that the handle names no region that this side may access, or that the
	// peer could not perform the operation at all. Peers of older versions report only
	// ReasonRegion.
	ReasonRegion AccessReason = frag.NackAccess
	// ReasonBounds means that some bytes are outside of the region, or that the number for an
	// atomic operation is not aligned.
	ReasonBounds AccessReason = frag.NackBounds
	// ReasonRight means that the region's rights do not allow the operation.
	ReasonRight AccessReason = frag.NackRight
)

func (r AccessReason) String() string {
	switch r {
	case ReasonRegion:
		return "no region of that handle is exposed to this side"
	case ReasonBounds:
		return "not all bytes are in the region, or a number is not aligned"
	case ReasonRight:
		return "the region's owner has not given the right"
	}
	return fmt.Sprintf("reason %d", uint8(r))
}

// AccessError is the error of a memory operation that the peer has refused. An AccessError matches
// ErrRemoteAccess with errors.Is.
type AccessError struct {
	Handle    Handle // the handle of the region
	Offset    uint64 // offset in the region, in bytes
	SizeBytes int    // size of the access
	Reason    AccessReason
	Needs     Rights // rights that the operation needs
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("%v: %v; %d bytes at %d of region %#x, which need the right to %v",
		ErrRemoteAccess, e.Reason, e.SizeBytes, e.Offset, uint64(e.Handle), e.Needs)
}

// Is makes errors.Is(err, ErrRemoteAccess) true for an AccessError.
func (e *AccessError) Is(target error) bool { return target == ErrRemoteAccess }

var errOperation = errors.New("no such operation")

func (f *Fragment) accessError(reason uint8) error {
	if f == nil {
		return ErrRemoteAccess
	}
	if !f.put && f.op == nil && reason == frag.NackRight {
		return ErrUnwanted
	}
	e := &AccessError{
		Handle: f.handle, Offset: f.offset, SizeBytes: int(f.size), Reason: AccessReason(reason),
		Needs: RemoteWrite,
	}
	if f.op != nil {
		needs, sizeBytes := f.op.Needs()
		if e.Needs = needs; !f.put {
			e.SizeBytes = sizeBytes
		}
	}
	return e
}

// PreparePutNotice lends the caller a put like PreparePut, with a message that notifies the peer
// of the completed put. When all bytes are written, the peer calls its handler of tag with a copy
// of says, which may have up to 64 bytes. OnDone with nil means that the peer has called the
// handler of the notification, or will call it. The region needs RemoteWrite and RemoteNotify.
//
// PreparePutNotice returns the errors of PreparePut, ErrTag for an invalid tag, ErrTooLarge if says
// is too long, and ErrUnsupported if the peer does not support notifications.
func (ep *Endpoint) PreparePutNotice(mem []byte, target Handle, offset uint64, tag Tag,
	says []byte,
) (*Fragment, error) {
	if err := ep.mayNotify(tag, says); err != nil {
		return nil, err
	}
	f, err := ep.PreparePut(mem, target, offset)
	if err != nil {
		return nil, err
	}
	ep.memory()
	f.op = ep.m.remote.NotifyPut(f, uint8(tag), says)
	return f, nil
}

// mayNotify returns an error if a put to the peer cannot have a completion notification with the
// given tag and data.
func (ep *Endpoint) mayNotify(tag Tag, says []byte) error {
	if tag > TagMax {
		return ErrTag
	}
	if len(says) > frag.NoticeBytesMax {
		return fmt.Errorf("%w: a notice of %d bytes, at most %d", ErrTooLarge, len(says),
			frag.NoticeBytesMax)
	}
	return ep.mayAsk()
}

// PrepareGet returns a fragment that reads len(mem) bytes of a region of the peer, beginning at
// offset, into mem. OnDone with nil means that all bytes have arrived, and the caller must not use
// mem before OnDone is called. After an error, some bytes of mem may be written. The region needs
// RemoteRead.
//
// PrepareGet returns the errors of PreparePut. PrepareGet returns ErrAgain while 256
// operations of this endpoint, or the endpoint's share of the module's 4096 gets, wait for
// a reply. PrepareGet returns ErrUnsupported if the peer does not support gets.
func (ep *Endpoint) PrepareGet(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	m := ep.m
	if uint64(len(mem)) > uint64(min(ep.fragBytesMax, m.cfg.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(mem))
	}
	random := m.cfg.Random() // the random number takes most of the time of a call
	f, err := ep.prepareAsk(frag.GetBytes, target, offset, true,
		!m.remote.MayGet(ep.remote, m.peers.Alone()))
	if err != nil {
		return nil, err
	}
	f.op = m.remote.AskGet(ep.remote, f, mem, target, offset, random)
	f.data.Bytes = f.op.Body()
	return f, nil
}

// Action is the kind of an atomic operation on a number in a region.
type Action = frag.Action

// The constants below are the kinds of atomic operations. Atomic operations use unsigned numbers in
// the byte order of the peer's CPU. ActionRead only reads the number.
const (
	ActionAdd         = frag.ActionAdd
	ActionSwap        = frag.ActionSwap
	ActionCompareSwap = frag.ActionCompareSwap
	ActionAnd         = frag.ActionAnd
	ActionOr          = frag.ActionOr
	ActionXor         = frag.ActionXor
	ActionMin         = frag.ActionMin
	ActionMax         = frag.ActionMax
	ActionRead        = frag.ActionRead
)

// Atomic describes an atomic operation on one number in a region of a peer.
type Atomic struct {
	Target     Handle
	Offset     uint64 // position of the number in the region, a multiple of WidthBytes
	Action     Action
	WidthBytes int    // 4 or 8
	Operand    uint64 // only the lower 4 bytes if WidthBytes is 4, as for Compare
	Compare    uint64 // for ActionCompareSwap; else 0
	Fetch      bool   // whether Fragment.Value returns the old value; implied by ActionRead
}

// PrepareAtomic returns a fragment that applies the atomic operation a to a number of the
// peer, exactly once. The peer performs an atomic operation during its Progress, so a
// callback of the peer sees the number from before or after the operation. OnDone with nil
// means that the operation is done, and if a.Fetch is set, Fragment.Value then returns the
// old value. The region needs RemoteAtomic.
//
// PrepareAtomic returns the errors of PrepareGet, but an operation without a.Fetch waits
// for no reply and does not count towards the limit of 256 operations. PrepareAtomic
// returns ErrConfig for an invalid operation.
func (ep *Endpoint) PrepareAtomic(a Atomic) (*Fragment, error) {
	wire := frag.Atomic{
		Handle: uint64(a.Target), Offset: a.Offset, Operand: a.Operand, Compare: a.Compare,
		Action: a.Action, WidthBytes: uint8(a.WidthBytes), Fetch: a.Fetch || a.Action == ActionRead,
	}
	if !wire.Valid() || a.WidthBytes > 8 || a.WidthBytes < 0 {
		return nil, fmt.Errorf("%w: %w: action %d on %d bytes", ErrConfig, errOperation, a.Action,
			a.WidthBytes)
	}
	m := ep.m
	random := m.cfg.Random()
	f, err := ep.prepareAsk(frag.AtomicBytes, a.Target, a.Offset, wire.Fetch, false)
	if err != nil {
		return nil, err
	}
	f.op = m.remote.AskAtomic(ep.remote, f, &wire, random)
	f.data.Bytes = f.op.Body()
	return f, nil
}

// Value returns, after OnDone was called, the number that an atomic operation with Fetch has read.
func (f *Fragment) Value() uint64 {
	if f.op == nil {
		return 0
	}
	return f.op.Value()
}

// mayAsk returns ErrUnsupported if the peer is known not to support memory operations.
func (ep *Endpoint) mayAsk() error {
	if ep.id.State() == stateConnected && !ep.id.Operates {
		return ErrUnsupported
	}
	return nil
}
