package peer

import (
	"errors"
	"fmt"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/remote"
	"gobtl/frag"
)

// An operation on a peer's memory is sent as a fragment, with the same queues, sequence numbers,
// retransmissions and OnDone functions as a message. The additional state of a memory operation is
// the field Op of its Fragment, which package remote manages. An operation that waits for a reply
// counts the reply in the field "out" of its Fragment, like an unacknowledged packet. The code for
// the requester of an operation is in remote_ask.go, the code for the end of an operation is in
// sent.go, and the code for its target is in package receive (remote.go).

// Operation is the additional state of a fragment for a get, an atomic operation, a reply, or a put
// with a completion notification.
type Operation = remote.Operation[*Fragment]

// Memory returns the state of the memory operations of an endpoint and of its peer. The first call
// of Memory allocates the state of the memory operations. For a nil endpoint, Memory returns nil.
func (ep *Endpoint) Memory() *remote.Peer[*Fragment] {
	if ep == nil {
		return nil
	}
	if ep.Remote == nil {
		ep.Remote = remote.NewPeer[*Fragment]()
	}
	return ep.Remote
}

// AccessReason is the reason why a peer has refused a memory operation.
type AccessReason uint8

// The reasons for refusing a memory operation.
const (
	// ReasonRegion means that the handle is not that of a region which this side is allowed to access,
	// or that the peer was unable to perform the operation. A peer that does not support FeatureOps
	// reports only ReasonRegion.
	ReasonRegion AccessReason = frag.NackAccess
	// ReasonBounds means that some bytes are outside of the region, or that the target of an atomic
	// operation is not aligned.
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
	Handle    remote.Handle // the handle of the region
	Offset    uint64        // offset in the region, in bytes
	SizeBytes int           // size of the access
	Reason    AccessReason
	Needs     remote.Rights // rights that the operation needs
}

func (e *AccessError) Error() string {
	return fmt.Sprintf("%v: %v; %d bytes at %d of region %#x, which need the right to %v",
		errs.ErrRemoteAccess, e.Reason, e.SizeBytes, e.Offset, uint64(e.Handle), e.Needs)
}

// Is makes errors.Is(err, ErrRemoteAccess) true for an AccessError.
func (e *AccessError) Is(target error) bool { return target == errs.ErrRemoteAccess }

var errOperation = errors.New("no such operation")

// Refuse records the error of an operation that the peer has refused, unless the operation already
// has an error.
func (f *Fragment) Refuse(reason uint8) {
	if f.Err == nil {
		f.Err = f.accessError(reason)
	}
}

func (f *Fragment) accessError(reason uint8) error {
	if f == nil {
		return errs.ErrRemoteAccess
	}
	if !f.put && f.Op == nil && reason == frag.NackRight {
		return errs.ErrUnwanted
	}
	e := &AccessError{
		Handle: f.handle, Offset: f.offset, SizeBytes: int(f.size), Reason: AccessReason(reason),
		Needs: remote.Write,
	}
	if f.Op != nil {
		needs, sizeBytes := f.Op.Needs()
		if e.Needs = needs; !f.put {
			e.SizeBytes = sizeBytes
		}
	}
	return e
}

// PreparePutNotice does the work of btl.Endpoint.PreparePutNotice.
func (ds *Descriptors) PreparePutNotice(ep *Endpoint, mem []byte, target remote.Handle,
	offset uint64, tag uint8, says []byte,
) (*Fragment, error) {
	if err := ds.mayNotify(ep, tag, says); err != nil {
		return nil, err
	}
	f, err := ds.PreparePut(ep, mem, target, offset)
	if err != nil {
		return nil, err
	}
	ep.Memory()
	f.Op = ds.Remote.NotifyPut(f, tag, says)
	return f, nil
}

// mayNotify returns nil if a put to the peer may have a completion notification with the given tag
// and data, and otherwise an error that says why not.
func (ds *Descriptors) mayNotify(ep *Endpoint, tag uint8, says []byte) error {
	if tag > frag.TagUserMax {
		return errs.ErrTag
	}
	if len(says) > frag.NoticeBytesMax {
		return fmt.Errorf("%w: a notice of %d bytes, at most %d", errs.ErrTooLarge, len(says),
			frag.NoticeBytesMax)
	}
	return ep.mayAsk()
}

// PrepareGet does the work of btl.Endpoint.PrepareGet.
func (ds *Descriptors) PrepareGet(ep *Endpoint, mem []byte, target remote.Handle, offset uint64,
) (*Fragment, error) {
	if uint64(len(mem)) > uint64(min(ep.FragBytesMax, ds.Config.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes", errs.ErrTooLarge, len(mem))
	}
	random := ds.Config.Random() // the random number takes most of the time of a call
	f, err := ds.prepareAsk(ep, frag.GetBytes, target, offset, true,
		!ds.Remote.MayGet(ep.Remote, ds.Peers.Sole()))
	if err != nil {
		return nil, err
	}
	f.Op = ds.Remote.AskGet(ep.Remote, f, mem, target, offset, random)
	f.Data.Hold(f.Op.Body())
	return f, nil
}

// Atomic describes an atomic operation, and has the fields of btl.Atomic.
type Atomic struct {
	Target     remote.Handle
	Offset     uint64
	Action     frag.Action
	WidthBytes int
	Operand    uint64
	Compare    uint64
	Fetch      bool
}

// PrepareAtomic does the work of btl.Endpoint.PrepareAtomic.
func (ds *Descriptors) PrepareAtomic(ep *Endpoint, a Atomic) (*Fragment, error) {
	wire := frag.Atomic{
		Handle: uint64(a.Target), Offset: a.Offset, Operand: a.Operand, Compare: a.Compare,
		Action: a.Action, WidthBytes: uint8(a.WidthBytes), Fetch: a.Fetch || a.Action == frag.ActionRead,
	}
	if !wire.Valid() || a.WidthBytes > 8 || a.WidthBytes < 0 {
		return nil, fmt.Errorf("%w: %w: action %d on %d bytes", errs.ErrConfig, errOperation, a.Action,
			a.WidthBytes)
	}
	random := ds.Config.Random()
	f, err := ds.prepareAsk(ep, frag.AtomicBytes, a.Target, a.Offset, wire.Fetch, false)
	if err != nil {
		return nil, err
	}
	f.Op = ds.Remote.AskAtomic(ep.Remote, f, &wire, random)
	f.Data.Hold(f.Op.Body())
	return f, nil
}

// Value does the work of btl.Fragment.Value.
func (f *Fragment) Value() uint64 {
	if f.Op == nil {
		return 0
	}
	return f.Op.Value()
}

// mayAsk returns ErrUnsupported if the peer is known not to support memory operations, and nil
// otherwise.
func (ep *Endpoint) mayAsk() error {
	if ep.ID.State == StateConnected && !ep.ID.Operates {
		return errs.ErrUnsupported
	}
	return nil
}
