package btl

import (
	"errors"

	"gobtl/btl/internal/peer"
)

// The errors below can be tested with errors.Is.
var (
	// ErrAgain means that a descriptor, a buffer, a credit or room in a queue is not available now,
	// and that the call can be repeated after Progress.
	ErrAgain = peer.ErrAgain
	// ErrClosed means that the module or endpoint was closed on this side.
	ErrClosed = peer.ErrClosed
	// ErrPeerClosed means that the peer has closed the connection.
	ErrPeerClosed = peer.ErrPeerClosed
	// ErrPeerDead means that the peer has acknowledged nothing, or has not answered a probe, for
	// Config.PeerTimeout. Over a reliable fabric, ErrPeerDead may mean that the fabric could not
	// deliver a packet to the peer. The text of the error names the silent channel.
	ErrPeerDead = peer.ErrPeerDead
	// ErrLost means that a fabric has lost or reordered packets, although its provider claims to be
	// reliable and ordered.
	ErrLost = peer.ErrLost
	// ErrBroken means that the peer has violated the protocol by an acknowledgement of packets that
	// were never sent.
	ErrBroken = peer.ErrBroken
	// ErrPeerRestarted means that the peer has restarted as a new incarnation. Messages in flight
	// to the peer are lost.
	ErrPeerRestarted = peer.ErrPeerRestarted
	// ErrUnreachable means that the handshake took longer than Config.HandshakeTimeout allows.
	ErrUnreachable = peer.ErrUnreachable
	// ErrNarrow means that the peer answers, but that the path does not carry packets of 1200
	// bytes. If Config.MTUBytes is below 1200, ErrNarrow means that the path does not carry packets
	// of Config.MTUBytes.
	ErrNarrow = peer.ErrNarrow
	// ErrStalled means that the peer's partly received fragments made no progress for
	// Config.PeerTimeout, while other peers needed the memory of these fragments.
	ErrStalled = peer.ErrStalled
	// ErrVersion means that the two sides have no common protocol version, or that one side lacks a
	// required feature.
	ErrVersion = peer.ErrVersion
	// ErrStale means that the name given to Connect belongs to an earlier incarnation of the peer.
	ErrStale = peer.ErrStale
	// ErrRefused means that one side refuses to make a further endpoint, mostly because a limit on
	// endpoints is reached. The text of an ErrRefused says which side has refused the connection, and
	// why. If the peer's application has refused the connection, the ErrRefused is a RefusedError.
	ErrRefused = peer.ErrRefused
	// ErrNoRequest means that the module does not keep the connection request (any more).
	ErrNoRequest = errors.New("btl: no such connection request")
	// ErrBadName means that the bytes are not a module name of this provider.
	ErrBadName = peer.ErrBadName
	// ErrTooLarge means that the fragment exceeds the size limit of this side or of the peer.
	ErrTooLarge = peer.ErrTooLarge
	// ErrTag means that the tag is above TagMax and reserved for the transport.
	ErrTag = peer.ErrTag
	// ErrTagTaken means that a layer of this module, such as a call.Node or a queue.Queue, uses the
	// tag, or that a new layer needs a tag that already has a handler.
	ErrTagTaken = errors.New("btl: the tag is in use")
	// ErrNoHandler means that the peer has no handler for the fragment's tag.
	ErrNoHandler = peer.ErrNoHandler
	// ErrUnwanted means that the fragment is longer than the peer's handler accepts (HandleUpTo).
	// If the peer runs a version without ErrUnwanted, the error is ErrNoHandler instead of
	// ErrUnwanted.
	ErrUnwanted = peer.ErrUnwanted
	// ErrRemoteAccess means that the target of an operation is not in a memory region of the peer,
	// or that the region does not allow the operation. If the peer has reported the failed access,
	// an ErrRemoteAccess is an AccessError with the reason.
	ErrRemoteAccess = peer.ErrRemoteAccess
	// ErrUnsupported means that the peer does not support the requested operation on its memory.
	ErrUnsupported = peer.ErrUnsupported
	// ErrConfig means that a configuration value is out of range.
	ErrConfig = peer.ErrConfig
	// ErrReentrant means that Progress was called from a callback.
	ErrReentrant = errors.New("btl: Progress called from a callback")
	// ErrContext means that the context is nil, and that the call had no effect. ErrContext is
	// returned only by package runner, the packages on top of runner, and package stream.
	ErrContext = errors.New("btl: nil context")
	// ErrEndpoint means that the endpoint is nil or belongs to another module.
	ErrEndpoint = errors.New("btl: endpoint of another module")
	// ErrState means that the caller does not own the fragment, because it was sent or freed, or
	// belongs to another endpoint. For a Region, ErrState means that the Region is already exposed.
	// For a Kept, ErrState means that the Kept already holds data.
	ErrState = peer.ErrState
)

// RefusedError is an ErrRefused for a connection that the peer's application has refused (see
// Module.Admit). The field Code of a RefusedError is the peer's code (see Refuse and Defer), or 0
// for a kept request. RefusedError.Later is true if the peer deferred or kept the request until the
// handshake timed out.
type RefusedError = peer.RefusedError

// EndedError is an ErrPeerClosed with the reason that the peer has sent. If EndedError.Owner is
// true, Code is the code of the peer's CloseWith, and otherwise a code of package frag.
type EndedError = peer.EndedError
