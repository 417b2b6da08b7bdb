// Package limits has the limits of a transport module that programs cannot set, unlike the options
// of btl.Config. Only simulators and tests change the limits to small values, so that a few packets
// or peers suffice to reach a limit.
//
// The package has no functions, and values of Limits may be copied.
package limits

import "time"

// Limits are numbers for one module. If a field is zero, btl.Config.WithDefaults sets the default
// value.
type Limits struct {
	// QuantumBytes is the number of bytes that an endpoint may send in one turn of the round robin,
	// from its queue of small or of large fragments. A value below one packet counts as one packet.
	QuantumBytes int
	// PassPackets is the maximum number of new packets posted in one call of Progress.
	PassPackets int
	// PollBatch is the maximum number of completions polled from a channel in one call of
	// Progress.
	PollBatch int
	// IdlePollEvery is the number of calls of Progress between two polls of a channel that is idle
	// while messages arrive on the module's other channel. Whatever IdlePollEvery is, Progress polls
	// an idle channel if the previous poll was at least 20 us ago. A poll of an idle socket costs a
	// system call, which delays messages on the module's other channel.
	IdlePollEvery int

	// HalfOpenMax is the maximum number of half-open endpoints. An endpoint is half-open if its peer
	// has proven its addresses, but the handshake is not complete. If the fabric can identify hosts,
	// one host may have at most a quarter of HalfOpenMax half-open endpoints, but always at least one.
	// If btl.Config.PeersPerHost sets no limit, one host may have half of HalfOpenMax half-open
	// endpoints. When HalfOpenMax is reached, the host with the most half-open endpoints loses its
	// oldest one to a host that has fewer.
	HalfOpenMax int
	// PeersPerAddress is the maximum number of endpoints that this module accepts from one peer
	// address, including endpoints that are being closed.
	PeersPerAddress int
	// AwayMax limits the extension of btl.Config.PeerTimeout for a peer that has announced, in its
	// handshake, that it may not answer for some time. If AwayMax is negative, PeerTimeout is not
	// extended.
	AwayMax time.Duration

	// KeptBytesMax is the maximum memory for fragments of several packets that handlers keep after
	// they return. If KeptBytesMax is negative, handlers cannot keep fragments of several packets.
	KeptBytesMax int64
	// ReassemblyKeepBytes is the maximum size of unused reassembly buffers that a module keeps for
	// later fragments.
	ReassemblyKeepBytes int64
}
