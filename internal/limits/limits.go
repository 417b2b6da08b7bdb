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

	// HalfOpenMax is the maximum number of half-open endpoints. An endpoint is half-open if its
	// peer has proven its addresses, but the handshake is not complete. If the fabric can identify
	// hosts, the limit for one host is a quarter of HalfOpenMax, but at least one half-open
	// endpoint. If btl.Config.PeersPerHost sets no limit, the limit for one host is half of
	// HalfOpenMax. When HalfOpenMax is reached, a new half-open endpoint replaces the oldest
	// half-open endpoint of the host with the most half-open endpoints, if the new endpoint's host
	// has fewer.
	HalfOpenMax int
	// PeersPerAddress is the maximum number of endpoints that this module accepts from one peer
	// address, including endpoints that are being closed.
	PeersPerAddress int
	// A peer can announce in its handshake that it will sometimes not answer for a given time. For a
	// peer that has announced such times, the module extends btl.Config.PeerTimeout by the announced
	// time, but at most by AwayMax. If AwayMax is negative, PeerTimeout is not extended.
	AwayMax time.Duration

	// KeptBytesMax is the maximum memory for multi-packet fragments that handlers keep after they
	// return. If KeptBytesMax is negative, handlers cannot keep multi-packet fragments.
	KeptBytesMax int64
	// ReassemblyKeepBytes is the maximum size of unused reassembly buffers that a module keeps for
	// later fragments.
	ReassemblyKeepBytes int64
}
