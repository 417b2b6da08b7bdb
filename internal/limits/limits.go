// Package limits has those limits of a transport module that have the same values in every program,
// and are therefore no options of btl.Config. Simulators and tests set small values, so that a few
// packets or peers suffice to reach a limit.
//
// The package has no functions, and values of Limits may be copied.
package limits

import "time"

// Limits are numbers for one module. If a field is zero, btl.Config.WithDefaults sets the default
// value.
type Limits struct {
	// QuantumBytes is the number of bytes that an endpoint may send in one turn, for either its
	// small or its large fragments. A value below one packet counts as one packet.
	QuantumBytes int
	// PassPackets is the maximum number of new packets posted in one call of Progress.
	PassPackets int
	// PollBatch is the maximum number of completions polled from a channel in one call of
	// Progress.
	PollBatch int
	// IdlePollEvery is the number of calls of Progress between two polls of an idle channel
	// while messages arrive on the other channel. An idle channel is polled at the latest 20 us
	// after its previous poll. A poll of a socket is a system call even if it finds nothing, and
	// delays messages on the other channel.
	IdlePollEvery int

	// HalfOpenMax is the maximum number of half-open endpoints. The peer of a half-open
	// endpoint has proven its addresses, but the handshake is not complete. If the fabric can
	// identify hosts, the half-open endpoints of one host may be a quarter of HalfOpenMax (a half
	// if btl.Config.PeersPerHost sets no limit), but one is always permitted.
	HalfOpenMax int
	// PeersPerAddress is the maximum number of endpoints that a peer at one address may open
	// here. Endpoints that are being closed are counted.
	PeersPerAddress int
	// AwayMax is the longest time by which btl.Config.PeerTimeout is extended for a peer that has
	// announced, in its field Away, that it will not answer for some time. If AwayMax is negative,
	// the time is not extended.
	AwayMax time.Duration

	// KeptBytesMax is the maximum memory of fragments that consist of several packets and that
	// handlers keep after they return. If KeptBytesMax is negative, handlers cannot keep fragments
	// that consist of several packets.
	KeptBytesMax int64
	// ReassemblyKeepBytes is the maximum unused reassembly memory that is kept for later
	// fragments.
	ReassemblyKeepBytes int64
}
