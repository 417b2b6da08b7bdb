package btl

import (
	"errors"

	"gobtl/btl/internal/errs"
)

// The errors below can be tested with errors.Is.
var (
	// ErrAgain means that the call needs a resource that is exhausted at present, such as a
	// descriptor, a buffer, a credit or room in a queue. After ErrAgain, the caller can call Progress
	// and repeat the call.
	ErrAgain = errs.ErrAgain
	// ErrClosed means that the module or endpoint was closed on this side.
	ErrClosed = errs.ErrClosed
	// ErrPeerClosed means that the peer has closed the connection.
	ErrPeerClosed = errs.ErrPeerClosed
	// ErrPeerDead means that the peer has acknowledged nothing, or has not answered a probe, for
	// Config.PeerTimeout. Over a reliable fabric, ErrPeerDead can also mean that the fabric has failed
	// to deliver a packet to the peer. The text of the error names the silent channel.
	ErrPeerDead = errs.ErrPeerDead
	// ErrLost means that a fabric has lost or reordered packets, although its provider claims to be
	// reliable and ordered.
	ErrLost = errs.ErrLost
	// ErrBroken means that the peer has violated the protocol by an acknowledgement of packets that
	// were never sent.
	ErrBroken = errs.ErrBroken
	// ErrPeerRestarted means that the peer has restarted as a new incarnation. Messages in flight
	// to the peer are lost.
	ErrPeerRestarted = errs.ErrPeerRestarted
	// ErrUnreachable means that the handshake took longer than Config.HandshakeTimeout allows.
	ErrUnreachable = errs.ErrUnreachable
	// ErrNarrow means that the peer answers, but that the path does not carry packets of 1200
	// bytes. If Config.MTUBytes is below 1200, ErrNarrow means that the path does not carry packets
	// of Config.MTUBytes.
	ErrNarrow = errs.ErrNarrow
	// ErrStalled means that this side has closed the connection because the peer's partly received
	// fragments made no progress for Config.PeerTimeout, and their memory was needed for fragments of
	// different peers.
	ErrStalled = errs.ErrStalled
	// ErrVersion means that the two sides have no common protocol version, or that one side lacks a
	// required feature.
	ErrVersion = errs.ErrVersion
	// ErrStale means that the name given to Connect belongs to an earlier incarnation of the peer.
	ErrStale = errs.ErrStale
	// ErrRefused means that one side has refused the connection, mostly because the number of
	// endpoints on that side has reached its limit. The text of an ErrRefused says which side has
	// refused the connection, and why. If the peer's application has refused the connection, the
	// ErrRefused is a RefusedError.
	ErrRefused = errs.ErrRefused
	// ErrNoRequest means that the module does not store, or no longer stores, the connection request
	// (see Keep).
	ErrNoRequest = errors.New("btl: no such connection request")
	// ErrBadName means that the given bytes are not the name of a module that uses the same provider.
	ErrBadName = errs.ErrBadName
	// ErrTooLarge means that the fragment exceeds the size limit of this side or of the peer.
	ErrTooLarge = errs.ErrTooLarge
	// ErrTag means that the tag is above TagMax, and is therefore reserved for the transport.
	ErrTag = errs.ErrTag
	// ErrTagTaken means that a layer of this module, such as a call.Node or a queue.Queue, already
	// uses the tag. The creation of a layer fails with ErrTagTaken if the layer's tag already has a
	// handler.
	ErrTagTaken = errors.New("btl: the tag is in use")
	// ErrNoHandler means that the peer has no handler for the fragment's tag.
	ErrNoHandler = errs.ErrNoHandler
	// ErrUnwanted means that the fragment is longer than the peer's handler accepts (HandleUpTo). If
	// the peer runs a version that does not know ErrUnwanted, the sender gets ErrNoHandler instead.
	ErrUnwanted = errs.ErrUnwanted
	// ErrRemoteAccess means that the target of an operation is not in a memory region of the peer,
	// or that the region does not allow the operation. If the peer has reported the failed access,
	// an ErrRemoteAccess is an AccessError with the reason.
	ErrRemoteAccess = errs.ErrRemoteAccess
	// ErrUnsupported means that the peer does not support the requested operation on its memory.
	ErrUnsupported = errs.ErrUnsupported
	// ErrConfig means that a configuration value is out of range.
	ErrConfig = errs.ErrConfig
	// ErrReentrant means that Progress was called from a callback.
	ErrReentrant = errors.New("btl: Progress called from a callback")
	// ErrContext means that the context is nil, and that the call had no effect. Only package runner,
	// the packages on top of package runner, and package stream return ErrContext.
	ErrContext = errors.New("btl: nil context")
	// ErrEndpoint means that the endpoint is nil or belongs to another module.
	ErrEndpoint = errors.New("btl: endpoint of another module")
	// ErrState means that the caller does not own the fragment, because the fragment was sent or
	// freed, or belongs to another endpoint. For a Region, ErrState means that the Region is already
	// exposed. For a value of the type Kept, ErrState means that the value already holds data.
	ErrState = errs.ErrState
)

// RefusedError is an ErrRefused for a connection that the peer's application has refused (see
// Module.Admit). The field Code of a RefusedError is the code that the peer gave to Refuse or
// Defer, or 0 if the peer answered with Keep. RefusedError.Later is true if the peer answered with
// Defer or Keep until the handshake timed out, and false if the peer answered with Refuse.
type RefusedError = errs.RefusedError

// EndedError is an ErrPeerClosed with the reason that the peer has sent. If EndedError.Owner is
// true, the field Code is the code that the peer gave to CloseWith, and otherwise a code that
// package frag defines.
type EndedError = errs.EndedError
