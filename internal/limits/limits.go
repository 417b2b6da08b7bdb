// Package limits has the limits of a transport module that have one value in every program. They
// are no options of btl.Config. Simulators and tests set small values, so that few packets and few
// peers reach each limit.
//
// The package has no functions, and values of Limits may be copied.
package limits

import "time"

// Limits are numbers for one module. A zero field means the default, which btl.Config.WithDefaults
// sets.
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
	// while messages arrive on the other channel. An idle channel is polled after 20 us in any
	// case. An empty poll of a socket is a system call, which delays messages on the other
	// channel.
	IdlePollEvery int

	// HalfOpenMax is the maximum number of half-open endpoints. The peer of a half-open
	// endpoint has proven its addresses, but the handshake is not complete. If the fabric
	// tells hosts apart, the endpoints of one host may be at most a quarter of HalfOpenMax
	// (a half if btl.Config.PeersPerHost sets no limit), but at least one.
	HalfOpenMax int
	// PeersPerAddress is the maximum number of endpoints that a peer at one address may open
	// here. Endpoints that are being closed are counted.
	PeersPerAddress int
	// AwayMax is the maximum extension of btl.Config.PeerTimeout that is granted to a peer for
	// its Away. A negative value grants nothing.
	AwayMax time.Duration

	// KeptBytesMax is the maximum memory of fragments of several packets that handlers keep. A
	// negative value means none.
	KeptBytesMax int64
	// ReassemblyKeepBytes is the maximum unused reassembly memory that is kept for later
	// fragments.
	ReassemblyKeepBytes int64
}
