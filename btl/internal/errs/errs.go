// Package errs contains the errors of package btl, which exports each of them under the same name.
package errs

import (
	"errors"
	"fmt"

	"gobtl/frag"
)

// Package btl exports each of the errors below under the same name.
var (
	ErrAgain         = errors.New("btl: out of resources for now, try again after progress")
	ErrClosed        = errors.New("btl: closed")
	ErrPeerClosed    = errors.New("btl: closed by the peer")
	ErrPeerDead      = errors.New("btl: peer does not answer")
	ErrLost          = errors.New("btl: packet lost by a fabric that is said to be reliable")
	ErrBroken        = errors.New("btl: the peer has broken the protocol")
	ErrPeerRestarted = errors.New("btl: peer restarted")
	ErrUnreachable   = errors.New("btl: peer cannot be reached")
	ErrNarrow        = errors.New("btl: the path to the peer does not carry datagrams of the " +
		"least size")
	ErrStalled      = errors.New("btl: the peer holds memory that others want, and does not go on")
	ErrVersion      = errors.New("btl: peer speaks another protocol version")
	ErrStale        = errors.New("btl: address of an earlier incarnation of the peer")
	ErrRefused      = errors.New("btl: refused")
	ErrBadName      = errors.New("btl: malformed or foreign module name")
	ErrTooLarge     = errors.New("btl: fragment too large")
	ErrTag          = errors.New("btl: tag out of range")
	ErrNoHandler    = errors.New("btl: peer has no handler for this tag")
	ErrUnwanted     = errors.New("btl: the peer does not want this fragment")
	ErrRemoteAccess = errors.New("btl: remote memory access refused")
	ErrUnsupported  = errors.New("btl: the peer takes no such operation")
	ErrConfig       = errors.New("btl: invalid configuration")
	ErrState        = errors.New("btl: fragment is not in the caller's hands")
)

// RefusedError is the error of a connection that the peer's application has refused (see
// btl.Module.Admit). A RefusedError matches ErrRefused with errors.Is.
type RefusedError struct {
	Code  uint16 // the peer's code: see Refuse, Defer; 0 for a kept request
	Later bool   // the peer has not decided on the request before the handshake timed out
}

func (e *RefusedError) Error() string {
	if e.Later {
		return fmt.Sprintf("%v: put off by the peer's owner for too long, code %d", ErrRefused, e.Code)
	}
	return fmt.Sprintf("%v by the peer's owner, code %d", ErrRefused, e.Code)
}

// Is makes errors.Is(err, ErrRefused) true for a RefusedError.
func (e *RefusedError) Is(target error) bool { return target == ErrRefused }

// EndedError is the error of a connection that the peer has closed, and contains the peer's reason.
// An EndedError matches ErrPeerClosed with errors.Is.
type EndedError struct {
	Code  uint16 // the code of the peer's CloseWith, or one of package frag
	Owner bool   // Code was given to CloseWith
}

func (e *EndedError) Error() string {
	code := e.Code
	if e.Owner {
		code += frag.ByeOwner
	}
	return fmt.Sprintf("%v: %s", ErrPeerClosed, frag.ByeWord(code))
}

// Is makes errors.Is(err, ErrPeerClosed) true for an EndedError.
func (e *EndedError) Is(target error) bool { return target == ErrPeerClosed }

// WhyEnded returns the error of an endpoint whose peer has sent a Bye with the given code.
func WhyEnded(code uint16) error {
	switch {
	case code == frag.ByeClosed:
		return ErrPeerClosed
	case code >= frag.ByeOwner:
		return &EndedError{Code: code - frag.ByeOwner, Owner: true}
	}
	return &EndedError{Code: code}
}
