// Package limits has the limits of a transport module that programs cannot set, unlike the options
// of btl.Config. Only simulators and tests set fields of Limits, to small values, so that a few
// packets or peers suffice to reach a limit.
//
// The package has no functions, and values of Limits may be copied.
package limits

import "time"

// Limits holds the limits of one transport module. If a field of Limits is zero,
// btl.Config.WithDefaults sets the field to its default value.
type Limits struct {
	// QuantumBytes is the number of bytes that an endpoint may send in one turn of the round robin,
	// from its queue of small fragments or from its queue of large fragments. A QuantumBytes below the
	// size of one packet counts as the size of one packet.
	QuantumBytes int
	// PassPackets is the largest number of new packets (not retransmissions) that one call of Progress
	// posts to the fabric.
	PassPackets int
	// PollBatch is the largest number of completions that one call of Progress polls from a channel
	// (one of the two fabric endpoints of the module).
	PollBatch int
	// IdlePollEvery is the number of calls of Progress between two polls of a channel that is idle
	// while messages arrive on the module's other channel. Whatever the value of IdlePollEvery is,
	// Progress polls an idle channel if the previous poll of this channel was at least 20 us ago. A
	// poll of an idle socket costs a system call, which delays messages on the module's other channel.
	IdlePollEvery int

	// HalfOpenMax is the maximum number of half-open endpoints. An endpoint is half-open if its peer
	// has proven its addresses, but the handshake is not complete. If the fabric can identify hosts,
	// one host may have at most a quarter of HalfOpenMax half-open endpoints, or half of HalfOpenMax
	// if btl.Config.PeersPerHost sets no limit (but always at least one). When the module has
	// HalfOpenMax half-open endpoints, a new half-open endpoint replaces the oldest one of the host
	// that has the most half-open endpoints. A host that itself has the most half-open endpoints
	// cannot replace an endpoint.
	HalfOpenMax int
	// PeersPerAddress is the largest number of endpoints that peers at one address can have opened to
	// this module at the same time, including endpoints that are being closed.
	PeersPerAddress int
	// AwayMax limits the extension of btl.Config.PeerTimeout for a peer that has announced, in its
	// handshake, for how long it will sometimes not answer. The module extends PeerTimeout for the
	// peer by the announced time, but at most by AwayMax. If AwayMax is negative, the module does not
	// extend PeerTimeout.
	AwayMax time.Duration

	// KeptBytesMax is the largest total size of the multi-packet fragments that the program keeps
	// after their handlers have returned. If KeptBytesMax is negative, handlers cannot keep
	// multi-packet fragments.
	KeptBytesMax int64
	// ReassemblyKeepBytes is the largest total size of the unused reassembly buffers that a module
	// keeps for reuse.
	ReassemblyKeepBytes int64
}
