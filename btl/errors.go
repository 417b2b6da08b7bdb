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
	// ErrLost: a reliable fabric has lost a packet after all, or mixed up their order.
	ErrLost = errors.New("btl: packet lost by a fabric that is said to be reliable")
	// ErrBroken: the peer has broken the protocol: it acknowledges what was never sent to it.
	ErrBroken = errors.New("btl: the peer has broken the protocol")
	// ErrPeerRestarted: the peer came back as another incarnation; what was in flight is lost.
	ErrPeerRestarted = errors.New("btl: peer restarted")
	// ErrUnreachable: the handshake was not finished within Config.HandshakeTimeout.
	ErrUnreachable = errors.New("btl: peer cannot be reached")
	// ErrNarrow: of what is sent to the peer only the smallest packets arrive, and the peer is there:
	// the path carries none of 1200 bytes, or of Config.MTUBytes if that is less.
	ErrNarrow = errors.New("btl: the path to the peer does not carry datagrams of the least size")
	// ErrStalled: the peer has begun to send fragments and has not gone on for Config.PeerTimeout, and
	// others wanted the memory that they held.
	ErrStalled = errors.New("btl: the peer holds memory that others want, and does not go on")
	// ErrVersion: the peer speaks no protocol version that this side speaks.
	ErrVersion = errors.New("btl: peer speaks another protocol version")
	// ErrStale: the address names an incarnation of the peer that is gone.
	ErrStale = errors.New("btl: address of an earlier incarnation of the peer")
	// ErrRefused: one side does not want another endpoint, mostly because there is no room; the text
	// says which and why. If the peer's owner does not want it, the error is a RefusedError.
	ErrRefused = errors.New("btl: refused")
	// ErrBadName: the bytes are no module name of this provider.
	ErrBadName = errors.New("btl: malformed or foreign module name")
	// ErrTooLarge: the fragment exceeds what one of the two sides allows.
	ErrTooLarge = errors.New("btl: fragment too large")
	// ErrTag: the tag is reserved to the transport.
	ErrTag = errors.New("btl: tag out of range")
	// ErrNoHandler: the peer has no handler for the fragment's tag.
	ErrNoHandler = errors.New("btl: peer has no handler for this tag")
	// ErrUnwanted: the fragment is longer than the peer's handler takes (HandleUpTo). Older peers give
	// ErrNoHandler.
	ErrUnwanted = errors.New("btl: the peer does not want this fragment")
	// ErrRemoteAccess: the target of an operation is no region of the peer, lies outside it, or this
	// side has not the right. From the peer it is an AccessError, which says what of it.
	ErrRemoteAccess = errors.New("btl: remote memory access refused")
	// ErrUnsupported: the peer takes no operations on its memory but puts.
	ErrUnsupported = errors.New("btl: the peer takes no such operation")
	// ErrConfig: a configuration value is out of its range.
	ErrConfig = errors.New("btl: invalid configuration")
	// ErrReentrant: Progress was called from inside a callback.
	ErrReentrant = errors.New("btl: Progress called from a callback")
	// ErrContext: the context is nil. Nothing has begun, or goes on as before. The layers above the
	// module return it: runner, those that stand on it, and stream.
	ErrContext = errors.New("btl: nil context")
	// ErrEndpoint: the endpoint is nil or of another module.
	ErrEndpoint = errors.New("btl: endpoint of another module")
	// ErrState: the fragment is not the caller's to use (sent already, freed), or belongs to another
	// endpoint; the Region is exposed.
	ErrState = errors.New("btl: fragment is not in the caller's hands")
)

// RefusedError is the ErrRefused of a peer whose owner does not want the connection.
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
