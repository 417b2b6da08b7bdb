package btl

import (
	"errors"
	"fmt"

	"gobtl/frag"
)

// An operation on the memory of a peer is a fragment like any other on its way: it waits in the
// same queues, its packets have numbers and are sent again, it ends by OnDone. What it has besides
// is an operation:
//
//	put with a notice   its chunks name the operation; a packet behind them is the notice. What fits
//	                    one packet is one. The target counts: remote_notice.go
//	get                 one packet asks; the answer is a put of the peer into the caller's memory,
//	                    which is exposed for that, and to that peer, alone. It is counted in
//	                    Fragment.out like a packet that is not acknowledged: remote_ask.go
//	atomic              one packet asks; if the old value is wanted one packet answers
//
// What is done for others is in remote_serve.go.

// operation is what a fragment has that is more than a message or a plain put.
type operation struct {
	frag   *Fragment
	code   frag.OpCode // OpPart: a put with a notice; OpGet, OpAtomic; OpResult, OpFailed, of answers
	number uint32      // 0 until it has one: of a put in chunks when the first is sent
	body   [frag.NoticeBytesMax]byte
	says   uint8 // bytes of body that are a notice
	tag    uint8 // and its tag

	numbered bool // holds its number's place: in asks, or of the notices
	waits    bool // for an answer, which is counted in the fragment's out
	told     bool // the notice has been sent

	into    Region // of a get: the caller's memory, for the peer
	arrived uint32
	value   uint64 // of an atomic: the old one

	from *Region // of the answer to a get: what is read
	ask  uint32  // and the number of the get
}

// remoteState is what an endpoint knows of operations and fences.
type remoteState struct {
	asks      asks
	notices   *[noticePlaces]noticePlace // of the peer's puts
	answering int                        // answers to the peer that have not left
	puts      putProgress                // of the peer
	fences    uint32                     // calls of Fence
	fencesMet uint32                     // of these, over
}

// asks are an endpoint's operations that are answered, by number, and the places of its notices.
type asks struct {
	table   askTable
	made    bool // the table is
	waiting int  // operations sent whose answer has not come
	watched bool // the peer is asked for a sign of life while some are

	lastPut uint32 // number of the latest put with a notice in chunks
	places  [noticePlaces]bool
}

// asksMax bounds the operations to a peer that are not answered.
const asksMax = 256

// noticePlaces is how many puts in chunks with a notice may be under way to a peer.
const noticePlaces = 64

// Rights say what peers may do with a region.
type Rights uint8

// The rights. A put with a notice needs RemoteWrite and RemoteNotify.
const (
	RemoteWrite  Rights = 1 << iota // puts
	RemoteRead                      // gets
	RemoteAtomic                    // atomic operations
	RemoteNotify                    // notices of puts
	RemoteAll    = RemoteWrite | RemoteRead | RemoteAtomic | RemoteNotify
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

// AccessReason says why a peer has refused an operation.
type AccessReason uint8

// The reasons.
const (
	// ReasonRegion: the handle is that of no region, or of none for this side; or the peer could not
	// do what was asked at all. Older peers have no other reason.
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

// AccessError is the ErrRemoteAccess of an operation that the peer has refused.
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

// errOperation is of an operation that cannot be asked for.
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
	switch o := f.op; {
	case o != nil && o.code == frag.OpPart:
		e.Needs |= RemoteNotify
	case o != nil && o.code == frag.OpAtomic:
		e.Needs, e.SizeBytes = RemoteAtomic, int(o.body[33]) // its width
	case o != nil:
		e.Needs, e.SizeBytes = RemoteRead, len(o.into.mem)
	}
	return e
}

// PreparePutNotice is PreparePut with a notice: when, and only when, all bytes are in place the
// handler of tag at the peer is called with what the notice says, up to 64 bytes, which is copied.
// OnDone with nil means that this will be, or was. A put that is refused gives no notice. The
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
	o := ep.m.takeOp(f, frag.OpPart)
	o.tag, o.says = uint8(tag), uint8(copy(o.body[:], says))
	return f, nil
}

// mayNotify says why there can be no such notice.
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
// into mem. OnDone with nil means that all are there; before, mem must not be used. With an error
// some of mem may have been written. The region needs RemoteRead. Errors as for PreparePut;
// ErrAgain also when 256 operations of this endpoint wait for an answer, and ErrUnsupported.
func (ep *Endpoint) PrepareGet(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	m := ep.m
	if uint64(len(mem)) > uint64(min(ep.fragBytesMax, m.cfg.FragmentBytesMax)) {
		return nil, fmt.Errorf("%w: %d bytes", ErrTooLarge, len(mem))
	}
	random := m.random() // once, which is most of the work: who sees the handle sees the number, too
	f, o, err := ep.prepareAsk(frag.OpGet, frag.GetBytes, target, offset,
		random>>(64-askRandomBits), true)
	if err != nil {
		return nil, err
	}
	o.into = Region{m: m, mem: mem, rights: RemoteWrite, only: ep, get: o}
	handle, _ := m.regions.exposed.Add(random, &o.into)
	o.into.handle = Handle(handle)
	get := frag.Get{
		Handle: uint64(target), Offset: offset, Answer: handle, SizeBytes: uint32(len(mem)),
	}
	get.Marshal(o.body[:])
	return f, nil
}

// Action is what an atomic operation does to a number in a region.
type Action = frag.Action

// The actions. Numbers have no sign and are as the peer's processor has them in memory. ActionRead
// changes nothing.
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

// PrepareAtomic lends a fragment that does a to a number of the peer, exactly once, in the peer's
// Progress: what its callbacks see is from before or from after. OnDone with nil means that it is
// done; if a.Fetch is set, Fragment.Value is the old value then. The region needs RemoteAtomic.
// Errors as for PrepareGet, but that one without a.Fetch waits for no answer, and ErrConfig if
// there is no such operation.
func (ep *Endpoint) PrepareAtomic(a Atomic) (*Fragment, error) {
	wire := frag.Atomic{
		Handle: uint64(a.Target), Offset: a.Offset, Operand: a.Operand, Compare: a.Compare,
		Action: a.Action, WidthBytes: uint8(a.WidthBytes), Fetch: a.Fetch || a.Action == ActionRead,
	}
	if !wire.Valid() || a.WidthBytes > 8 || a.WidthBytes < 0 {
		return nil, fmt.Errorf("%w: %w: action %d on %d bytes", ErrConfig, errOperation, a.Action,
			a.WidthBytes)
	}
	f, o, err := ep.prepareAsk(frag.OpAtomic, frag.AtomicBytes, a.Target, a.Offset, ep.m.random(),
		wire.Fetch)
	if err != nil {
		return nil, err
	}
	wire.Marshal(o.body[:])
	return f, nil
}

// Value is what an atomic operation that fetches has found: the old value. It is valid in OnDone.
func (f *Fragment) Value() uint64 {
	if f.op == nil {
		return 0
	}
	return f.op.value
}

// mayAsk says why the peer takes no operations, if it is known that it does not.
func (ep *Endpoint) mayAsk() error {
	if ep.state == stateConnected && !ep.operates {
		return ErrUnsupported
	}
	return nil
}
