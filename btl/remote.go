package btl

import (
	"gobtl/btl/internal/peer"
	"gobtl/frag"
)

// AccessReason is the reason why a peer has refused a memory operation.
type AccessReason = peer.AccessReason

// The reasons for refusing a memory operation.
const (
	// ReasonRegion means that the handle does not belong to a region that this side is allowed to
	// access, or that the peer could not perform the operation at all. Peers of older versions report
	// ReasonRegion for all reasons.
	ReasonRegion AccessReason = peer.ReasonRegion
	// ReasonBounds means that some bytes of the access are outside of the region, or that the target
	// of an atomic operation is not aligned.
	ReasonBounds AccessReason = peer.ReasonBounds
	// ReasonRight means that the region's rights do not allow the operation.
	ReasonRight AccessReason = peer.ReasonRight
)

// AccessError is the error of a memory operation that the peer has refused. The function errors.Is
// reports that an AccessError is an ErrRemoteAccess. An AccessError contains the Handle of the
// region, the Offset and SizeBytes of the access, the Reason, and the required rights (Needs).
type AccessError = peer.AccessError

// PreparePut lends the caller a fragment that writes mem to a memory region of the peer, beginning
// at the given offset. A put calls no handler of the peer. If the error argument of OnDone is nil,
// all bytes are written. If the error argument of OnDone is ErrRemoteAccess, the peer does not have
// the target region or does not allow the put. If the peer closes the region during a put, some
// bytes of the put might have been written. Until OnDone is called, and after a failed put, the
// contents of the target bytes are undefined. PreparePut returns the same errors as Alloc, and
// ErrRemoteAccess if the sum of offset and length does not fit into a uint64.
func (ep *Endpoint) PreparePut(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.PreparePut(&ep.c, mem, target, offset))
}

// PreparePutPieces works like PreparePut for bytes in up to PiecesMax local memory segments, which
// are written contiguously to the peer's region.
func (ep *Endpoint) PreparePutPieces(target Handle, offset uint64, pieces ...[]byte) (
	*Fragment, error,
) {
	return fragmentOf(ep.c.All.Frags.PreparePutPieces(&ep.c, target, offset, pieces...))
}

// PreparePutNotice lends the caller a put like PreparePut, with a message that notifies the peer of
// the completed put. When all bytes are written, the peer calls its handler of the tag with a copy
// of the slice "says", which has at most 64 bytes. If the error argument of OnDone is nil, the peer
// has called the handler of the tag, or will call it. The region needs RemoteWrite and
// RemoteNotify.
//
// PreparePutNotice returns the errors of PreparePut, ErrTag for an invalid tag, ErrTooLarge if the
// argument "says" is too long, and ErrUnsupported if the peer does not support notifications.
func (ep *Endpoint) PreparePutNotice(mem []byte, target Handle, offset uint64, tag Tag,
	says []byte,
) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.PreparePutNotice(&ep.c, mem, target, offset, uint8(tag), says))
}

// PrepareGet returns a fragment that reads len(mem) bytes of a region of the peer, beginning at
// offset, into mem. If the error argument of OnDone is nil, all bytes have arrived in mem. The
// caller must not use mem before OnDone is called. After an error of a get, some bytes of mem might
// have changed. The region needs RemoteRead.
//
// PrepareGet returns the errors of PreparePut. PrepareGet returns ErrAgain while 256 operations of
// this endpoint wait for a reply. PrepareGet returns ErrAgain if this endpoint has reached its
// share of the module's 4096 concurrent gets. PrepareGet returns ErrUnsupported if the peer does
// not support gets.
func (ep *Endpoint) PrepareGet(mem []byte, target Handle, offset uint64) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.PrepareGet(&ep.c, mem, target, offset))
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

// PrepareAtomic returns a fragment that applies the atomic operation a to a number in the peer's
// memory, exactly once. The peer performs an atomic operation during its Progress, so no callback
// of the peer sees a partly changed number. If the error argument of OnDone is nil, the operation
// is complete. If a.Fetch is set, Fragment.Value then returns the old value of the number. The
// region needs RemoteAtomic.
//
// PrepareAtomic returns the errors of PrepareGet. An operation without a.Fetch waits for no reply,
// so it does not count towards the limit of 256 operations. PrepareAtomic returns ErrConfig for an
// invalid operation.
func (ep *Endpoint) PrepareAtomic(a Atomic) (*Fragment, error) {
	return fragmentOf(ep.c.All.Frags.PrepareAtomic(&ep.c, peer.Atomic(a)))
}
