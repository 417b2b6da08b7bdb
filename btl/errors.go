package btl

import (
	"errors"
	"fmt"
)

// Errors of the package; test for them with errors.Is.
var (
	// ErrAgain: no resource now (descriptor, buffer, credit, queue). Call Progress and try again.
	ErrAgain = errors.New("btl: out of resources for now, try again after progress")
	// ErrClosed: the module or endpoint was closed on this side.
	ErrClosed = errors.New("btl: closed")
	// ErrPeerClosed: the peer closed its end.
	ErrPeerClosed = errors.New("btl: closed by the peer")
	// ErrPeerDead: nothing was heard from the peer for Config.PeerTimeout while an answer was due,
	// or a reliable fabric could not carry a packet to it. The error says which channel is silent.
	ErrPeerDead = errors.New("btl: peer does not answer")
	// ErrLost: a fabric that claims to be reliable has lost or reordered packets.
	ErrLost = errors.New("btl: packet lost by a fabric that is said to be reliable")
	// ErrBroken: the peer has broken the protocol: it acknowledges what was never sent to it.
	ErrBroken = errors.New("btl: the peer has broken the protocol")
	// ErrPeerRestarted: the peer came back as another incarnation; messages in flight are lost.
	ErrPeerRestarted = errors.New("btl: peer restarted")
	// ErrUnreachable: the handshake was not finished within Config.HandshakeTimeout.
	ErrUnreachable = errors.New("btl: peer cannot be reached")
	// ErrNarrow: the peer answers, but only the smallest packets reach it: the path does not carry
	// packets of 1200 bytes, or of Config.MTUBytes if that is less.
	ErrNarrow = errors.New("btl: the path to the peer does not carry datagrams of the least size")
	// ErrStalled: the peer's partly received fragments made no progress for Config.PeerTimeout,
	// while other peers needed the memory that they held.
	ErrStalled = errors.New("btl: the peer holds memory that others want, and does not go on")
	// ErrVersion: the peer speaks no protocol version that this side speaks.
	ErrVersion = errors.New("btl: peer speaks another protocol version")
	// ErrStale: the name is that of an earlier incarnation of the peer.
	ErrStale = errors.New("btl: address of an earlier incarnation of the peer")
	// ErrRefused: one side refuses another endpoint, mostly for lack of room; the text says which
	// side, and why. If the peer's owner refused, the error is a RefusedError.
	ErrRefused = errors.New("btl: refused")
	// ErrBadName: the bytes are no module name of this provider.
	ErrBadName = errors.New("btl: malformed or foreign module name")
	// ErrTooLarge: the fragment exceeds the limit of one of the two sides.
	ErrTooLarge = errors.New("btl: fragment too large")
	// ErrTag: the tag is reserved to the transport.
	ErrTag = errors.New("btl: tag out of range")
	// ErrNoHandler: the peer has no handler for the fragment's tag.
	ErrNoHandler = errors.New("btl: peer has no handler for this tag")
	// ErrUnwanted: the fragment is longer than the peer's handler accepts (HandleUpTo). Older peers
	// give ErrNoHandler.
	ErrUnwanted = errors.New("btl: the peer does not want this fragment")
	// ErrRemoteAccess: an operation's target is no region of the peer, is out of its bounds, or
	// lacks the right. If the peer reports that, the error is an AccessError with the reason.
	ErrRemoteAccess = errors.New("btl: remote memory access refused")
	// ErrUnsupported: the only operation that the peer supports on its memory is a put.
	ErrUnsupported = errors.New("btl: the peer takes no such operation")
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("btl: invalid configuration")
	// ErrReentrant: Progress was called from inside a callback.
	ErrReentrant = errors.New("btl: Progress called from a callback")
	// ErrContext: the context is nil, and the call has had no effect. Only layers above the module
	// return it: runner, the packages on top of runner, and stream.
	ErrContext = errors.New("btl: nil context")
	// ErrEndpoint: the endpoint is nil or of another module.
	ErrEndpoint = errors.New("btl: endpoint of another module")
	// ErrState: the caller does not own the fragment (it was sent or freed), or it is of another
	// endpoint; or the Region is exposed already.
	ErrState = errors.New("btl: fragment is not in the caller's hands")
)

// RefusedError is an ErrRefused by the decision of the peer's owner.
type RefusedError struct {
	Code  uint16 // what the owner says: see Refuse, Defer
	Later bool   // it was not wanted then, and the handshake's time-out is over
}

func (e *RefusedError) Error() string {
	if e.Later {
		return fmt.Sprintf("%v: put off by the peer's owner for too long, code %d", ErrRefused, e.Code)
	}
	return fmt.Sprintf("%v by the peer's owner, code %d", ErrRefused, e.Code)
}

// Is makes it an ErrRefused.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }
