package btl

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// An operation on a peer's memory is sent as a fragment like any other: same queues, numbered and
// retransmitted packets, OnDone at its end. Its additional state is an operation of package remote,
// Fragment.op. An awaited answer counts in Fragment.out, like an unacknowledged packet. The
// requester's side is in remote_ask.go, the target's side in remote_serve.go.

// operation is the further state of a fragment that is not a message or a plain put.
type operation = remote.Operation[*Fragment]

// memory is the endpoint's state of memory operations in both directions; nil for a nil endpoint.
func (ep *Endpoint) memory() *remote.Peer[*Fragment] {
	if ep == nil {
		return nil
	}
	if ep.remote == nil {
		ep.remote = remote.NewPeer[*Fragment]()
	}
	return ep.remote
}

// AccessReason says why a peer has refused an operation.
type AccessReason uint8

// The reasons.
const (
	// ReasonRegion: the handle names no region that this side may access, or the peer could not
	// perform the operation at all. Older peers give only this reason.
	ReasonRegion AccessReason = frag.NackAccess
	// ReasonBounds: the bytes are not all inside of the region, or not aligned.
	ReasonBounds AccessReason = frag.NackBounds
	// ReasonRight: the region's owner has not given the right.
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

// AccessError is the form of ErrRemoteAccess for an operation that the peer has refused.
type AccessError struct {
	Handle    Handle // of the region
	Offset    uint64 // where in it
	SizeBytes int    // and how much
	Reason    AccessReason
	Needs     Rights // that the region must have for the operation
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("%v: %v; %d bytes at %d of region %#x, which need the right to %v",
		ErrRemoteAccess, e.Reason, e.SizeBytes, e.Offset, uint64(e.Handle), e.Needs)
}

// Is makes it an ErrRemoteAccess.
func (e *AccessError) Is(target error) bool { return target == ErrRemoteAccess }

// errOperation is the error for an invalid operation.
var errOperation = errors.New("no such operation")

// accessError is the error of a fragment that the peer has refused with a reason.
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

// PreparePutNotice is PreparePut with a notice: once all bytes are in place, and only then, the
// peer's handler of tag is called with the data of the notice, up to 64 bytes, which are copied.
// OnDone with nil means that this has happened or will. A put that is refused gives no notice. The
// region needs RemoteWrite and RemoteNotify. Further errors: ErrTag, ErrTooLarge, ErrUnsupported.
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

// mayNotify returns an error if a put cannot have such a notice.
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

// PrepareGet lends a fragment that reads len(mem) bytes of a region of the peer, from offset on,
// into mem. OnDone with nil means that all bytes have arrived; mem must not be used before. After
// an error mem may be partly written. The region needs RemoteRead. Errors as for PreparePut;
// ErrAgain also when 256 operations of this endpoint wait for an answer, and ErrUnsupported.
func (ep *Endpoint) PrepareGet(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	m := ep.m
	if uint64(len(mem)) > uint64(min(ep.fragBytesMax, m.cfg.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(mem))
	}
	random := m.random() // once, which is most of the work
	f, err := ep.prepareAsk(frag.GetBytes, target, offset, true, m.remote.Full())
	if err != nil {
		return nil, err
	}
	f.op = m.remote.AskGet(ep.remote, f, mem, target, offset, random)
	f.mem = f.op.Body()
	return f, nil
}

// Action is what an atomic operation does to a number in a region.
type Action = frag.Action

// The actions. Numbers are unsigned, in the byte order of the peer's processor. ActionRead changes
// nothing.
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

// Atomic is an operation on one number in a region of a peer.
type Atomic struct {
	Target     Handle
	Offset     uint64 // where in the region, a multiple of WidthBytes
	Action     Action
	WidthBytes int    // 4 or 8
	Operand    uint64 // of 4 bytes in the first case, likewise Compare
	Compare    uint64 // of ActionCompareSwap; else 0
	Fetch      bool   // whether Fragment.Value is to be the old value; of ActionRead always
}

// PrepareAtomic lends a fragment that applies a to a number of the peer, exactly once, in the
// peer's Progress: the peer's callbacks see the number from before or after. OnDone with nil means
// that it is done; if a.Fetch is set, Fragment.Value is the old value then. The region needs
// RemoteAtomic. Errors as for PrepareGet, except that without a.Fetch no answer is awaited; and
// ErrConfig for an invalid operation.
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
	random := m.random()
	f, err := ep.prepareAsk(frag.AtomicBytes, a.Target, a.Offset, wire.Fetch, false)
	if err != nil {
		return nil, err
	}
	f.op = m.remote.AskAtomic(ep.remote, f, &wire, random)
	f.mem = f.op.Body()
	return f, nil
}

// Value is the old value that a fetching atomic operation has returned. It is valid in OnDone.
func (f *Fragment) Value() uint64 {
	if f.op == nil {
		return 0
	}
	return f.op.Value()
}

// mayAsk returns an error if the peer is known not to support operations.
func (ep *Endpoint) mayAsk() error {
	if ep.id.State() == stateConnected && !ep.id.Operates {
		return ErrUnsupported
	}
	return nil
}
