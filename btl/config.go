package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Config tunes a module. The zero value is a good default; Validate checks a filled one.
type Config struct {
	// Profile names the recovery rules: "adaptive", the default; "usnic", the rules of Open MPI's
	// BTL of that name; or "lossless", the default over a reliable, ordered provider.
	Profile string
	// Reliability selects the layer that recovers losses. "auto": the provider if both sides' are
	// reliable and ordered, else the module. "own": always the module.
	Reliability string
	// Rules overrides single numbers of the profile; zero fields keep the profile's.
	Rules reliability.Rules

	// MTUBytes caps the datagrams of the data channel, 512 to 65507; 0 takes the provider's MTU, or
	// 65472 if that is larger.
	MTUBytes int
	// TinyBytes is the largest datagram of the command channel, 256 to MTUBytes. Fragments that fit
	// such a datagram use that channel, ahead of bulk data. 0 means 768, or a smaller MTU.
	TinyBytes int

	// PackBytes is the largest packet that small fragments share, up to 65507 and the peer's MTU.
	// Fragments share packets if two of them fit. 0 means 8 KiB, 1 turns sharing off.
	PackBytes int
	// MixBytes is the largest MTU, up to 65507, at which the end of a large fragment and the beginning
	// of the next share a packet, if the next is queued, so that a stream of messages of a few packets
	// each fills its packets. 0 means 9000: any Ethernet, jumbo frames included. 1 turns mixing
	// off. Mixed packets from a peer are always accepted.
	MixBytes int

	// SendBuffers is the number of packets that can be in flight or lent to the caller, over all
	// peers, 64 to 1<<20. 0 means one full window (Rules.WindowPackets), and 4096 at least. Each takes
	// MTUBytes of memory, on most providers from its first use on. A lone peer may use seven
	// eighths of them; one of several peers as many as are then free.
	SendBuffers int
	// RecvDepth is the number of receive buffers posted on each channel, 16 to 1<<16. 0 means 1024.
	RecvDepth int
	// TxDepth is the number of sends that may wait for completion on each channel. 0: the provider's.
	TxDepth int
	// RecvBufferBytes asks for a kernel receive buffer of that size on each channel, where the
	// provider has one. 0 asks for 4 MiB, negative leaves the system's default. The size that the
	// kernel grants bounds the credits given to peers.
	RecvBufferBytes int
	// RingBytes is the size of the ring to each peer's channel where the provider has rings: a power
	// of two in the provider's range, which its errors state. 0: the provider's.
	RingBytes int

	// FragmentsMax is the number of fragment descriptors: sends queued or unacknowledged, 16 to 1<<20.
	// 0 means 4096. A lone peer may use seven eighths of them; one of several peers as many as are
	// then free.
	FragmentsMax int
	// FragmentBytesMax bounds one fragment, sent or received, up to 4 GiB - 1. 0 means 1 GiB.
	FragmentBytesMax uint32
	// ReassemblyBytesMax bounds the memory of all fragments being received; chunks beyond that are
	// dropped and retransmitted later. 0 means 2 GiB, and at least FragmentBytesMax.
	ReassemblyBytesMax int64
	// ReassemblyKeepBytes bounds the idle reassembly memory that is kept for reuse. 0 means 64 MiB.
	ReassemblyKeepBytes int64
	// KeptPackets bounds the packets that handlers keep in their receive buffers (Module.Keep), up
	// to 1<<20. Each needs a spare packet buffer. 0 means 256, negative none.
	KeptPackets int
	// KeptBytesMax bounds the memory of larger fragments that handlers keep, beside
	// ReassemblyBytesMax. 0 means 256 MiB, negative none.
	KeptBytesMax int64
	// ArrivalsMax and ArrivalsBytesMax bound the queue of Module.PullArrivals: the messages, and
	// the bytes of copied ones. The queue may exceed a bound by the messages of one pass. 0 means
	// 65536 messages, and 256 MiB.
	ArrivalsMax      int
	ArrivalsBytesMax int64

	// PeersMax bounds the endpoints, 1 to 1<<20. 0 means 4096.
	PeersMax int
	// HalfOpenMax bounds the half-open endpoints: the peer has proven its addresses, but has not
	// confirmed yet that the handshake is complete. If PeersPerHost is in force, one host may hold
	// a quarter of them, but at least one. 0 means 256.
	HalfOpenMax int
	// PeersPerAddress bounds the endpoints of one address that its module has opened, closing ones
	// included, 1 to 1<<20. 0 means 16.
	PeersPerAddress int
	// PeersPerHost bounds the endpoints of one host (or of those that share its address, behind a
	// router), up to 1<<20, where the fabric tells hosts apart, so that one host cannot take all
	// places. It does not bound what this side opens. 0 means a quarter of PeersMax, and 256 at
	// least; negative sets no bound.
	PeersPerHost int
	// Advertise is the address that peers are told, in the notation of Module.Dial, if it is not
	// the bound one: an address that a router maps to this host. Empty: the bound address. Where
	// the fabric knows the source of datagrams (udp), answers go to that source; the advertised
	// address is for peers that initiate.
	Advertise string
	// Label is the name of this module that peers are told, up to 32 bytes: see Request. It is not
	// authenticated.
	Label string
	// RegionsMax bounds the exposed regions, 1 to 1<<16. 0 means 1024.
	RegionsMax int
	// RegistrationsKept is the number of registrations that stay cached after their last use. 0
	// caches none, the safe choice: registered memory must not be unmapped.
	RegistrationsKept int

	// HandshakeTimeout bounds Connect. 0 means 3 s.
	HandshakeTimeout time.Duration
	// PeerTimeout is the time after which a peer is dead if it has not acknowledged the oldest
	// packet, whatever else it sends, or not answered a probe. 0 means 5 s. A process that computes
	// for longer than that without a call of Progress is declared dead, unless it announced that
	// (Away), or a Runner calls Progress. A PeerTimeout below four resend time-outs shortens those.
	PeerTimeout time.Duration
	// Away is the longest time that this module's process computes without a call of Progress, up
	// to an hour. Peers are told, and extend their PeerTimeout for it by as much as they grant
	// (AwayMax). 0 asks for no extension. Close does not wait longer because of it.
	Away time.Duration
	// AwayMax bounds the time granted for a peer's Away, up to an hour. 0 means a minute, negative
	// nothing.
	AwayMax time.Duration
	// KeepAlive is the silence on a channel, in either direction, after which this side probes the
	// peer there. So a dead peer is detected without traffic, and firewalls and NATs on the path
	// keep both port mappings. 0 means 20 s, negative never probes. When memory or endpoints run
	// short, silent peers are probed at once.
	KeepAlive time.Duration
	// CloseTimeout bounds the drain of Endpoint.Close after the peer stops answering. 0 means 1 s.
	CloseTimeout time.Duration

	// QuantumBytes is the bytes that an endpoint may send of its small or its large fragments in a
	// turn. 0 means 64768: 44 packets of an Ethernet's size, which fit one UDP segmentation offload
	// send. The minimum in force is one packet.
	QuantumBytes int
	// PassPackets bounds the new packets posted in one pass of the progress loop, 1 to 1024. 0 means
	// 88.
	PassPackets int
	// PollBatch bounds the completions taken from a channel in one pass, 1 to 1024. 0 means 128.
	PollBatch int
	// IdlePollEvery is the number of passes, 1 to 64, between polls of an idle channel, if the
	// latest message came by the other one; after 20 us it is polled in any case. 0 means 16. An
	// empty poll of a socket is a system call that delays messages on the other channel.
	IdlePollEvery int

	// Random returns random numbers for incarnation, tags and first sequence numbers. nil uses
	// crypto/rand; a simulator gives its own.
	Random func() uint64
}

// The values of Config.Reliability.
const (
	reliabilityAuto = "auto"
	reliabilityOwn  = "own"
)

// profileFor names the recovery rules that suit a provider.
func profileFor(info fabric.Info) string {
	if info.Reliable && info.Ordered {
		return "lossless"
	}
	return "adaptive"
}

// WithDefaults returns c with defaults for its zero fields that suit a provider's Info.
func (c Config) WithDefaults(info fabric.Info) (Config, error) {
	setString(&c.Profile, profileFor(info))
	setString(&c.Reliability, reliabilityAuto)
	rules, err := reliability.Profile(c.Profile)
	if err != nil {
		return c, fmt.Errorf("%w: %w", ErrConfig, err)
	}
	c.Rules = c.Rules.WithDefaults(rules)
	mtu := providersMTU(info.MTUBytes)
	switch {
	case c.MTUBytes < 0 || c.MTUBytes > max(mtuBytesMax, info.MTUBytes): // Validate says so.
	case c.MTUBytes > 0:
		c.MTUBytes = min(mtu, c.MTUBytes)
	default:
		c.MTUBytes = mtu
	}
	set(&c.TinyBytes, 768)
	c.TinyBytes = min(c.TinyBytes, c.MTUBytes)
	set(&c.PackBytes, 8<<10)
	set(&c.SendBuffers, max(c.Rules.WindowPackets, reliability.WindowDefault))
	set(&c.RecvDepth, 1024)
	set(&c.FragmentsMax, 4096)
	set(&c.FragmentBytesMax, 1<<30)
	set(&c.ReassemblyBytesMax, 2<<30)
	c.ReassemblyBytesMax = max(c.ReassemblyBytesMax, int64(c.FragmentBytesMax))
	set(&c.ReassemblyKeepBytes, 64<<20)
	set(&c.KeptPackets, 256)
	c.KeptPackets = max(c.KeptPackets, -1)
	set(&c.KeptBytesMax, 256<<20)
	c.KeptBytesMax = max(c.KeptBytesMax, -1)
	set(&c.ArrivalsMax, 1<<16)
	set(&c.ArrivalsBytesMax, 256<<20)
	set(&c.PeersMax, 4096)
	set(&c.HalfOpenMax, 256)
	set(&c.PeersPerAddress, 16)
	set(&c.PeersPerHost, max(c.PeersMax/4, 256))
	c.PeersPerHost = max(c.PeersPerHost, -1)
	set(&c.RegionsMax, 1024)
	set(&c.HandshakeTimeout, 3*time.Second)
	set(&c.PeerTimeout, 5*time.Second)
	set(&c.AwayMax, time.Minute)
	c.AwayMax = max(c.AwayMax, -1)
	set(&c.KeepAlive, 20*time.Second)
	c.KeepAlive = max(c.KeepAlive, -1)
	set(&c.CloseTimeout, time.Second)
	set(&c.QuantumBytes, 44*1472)
	set(&c.PassPackets, 88)
	set(&c.MixBytes, mixBytesDefault)
	set(&c.PollBatch, 128)
	set(&c.IdlePollEvery, 16)
	return c, c.Validate()
}

func set[T int | int64 | uint32 | time.Duration](p *T, v T) {
	if *p == 0 {
		*p = v
	}
}

func setString(p *string, v string) {
	if *p == "" {
		*p = v
	}
}

// providersMTU is the datagram size for a provider that carries that many bytes. If a packet header
// cannot express that size, the result is a multiple of the cache line, to keep chunks aligned with
// lines of the memory that they are copied from and to.
func providersMTU(bytes int) int {
	if bytes > mtuBytesMax {
		return mtuBytesMax &^ 63
	}
	return bytes
}

const (
	mtuBytesMax = 65507
	mtuBytesMin = 512
	// tinyBytesMin holds a handshake packet.
	tinyBytesMin = 256
)

// Validate reports the first value out of range of a configuration without zero fields.
func (c Config) Validate() error {
	if err := c.Rules.Validate(); err != nil {
		return fmt.Errorf("%w: %w", ErrConfig, err)
	}
	if c.Reliability != reliabilityAuto && c.Reliability != reliabilityOwn {
		return fmt.Errorf("%w: reliability is %q, must be %s or %s", ErrConfig, c.Reliability,
			reliabilityAuto, reliabilityOwn)
	}
	for _, r := range []struct {
		name      string
		v, lo, hi int64
	}{
		{"mtu_bytes", int64(c.MTUBytes), mtuBytesMin, mtuBytesMax},
		{"tiny_bytes", int64(c.TinyBytes), tinyBytesMin, int64(c.MTUBytes)},
		{"pack_bytes", int64(c.PackBytes), 1, mtuBytesMax},
		{"mix_bytes", int64(c.MixBytes), 1, mtuBytesMax},
		{"send_buffers", int64(c.SendBuffers), 64, 1 << 20},
		{"recv_depth", int64(c.RecvDepth), 16, 1 << 16},
		{"tx_depth", int64(c.TxDepth), 0, 1 << 16},
		{"ring_bytes", int64(c.RingBytes), 0, 1 << 30},
		{"fragments_max", int64(c.FragmentsMax), 16, 1 << 20},
		{"fragment_bytes_max", int64(c.FragmentBytesMax), 1 << 10, 1<<32 - 1},
		{"reassembly_bytes_max", c.ReassemblyBytesMax, int64(c.FragmentBytesMax), 1 << 40},
		{"reassembly_keep_bytes", c.ReassemblyKeepBytes, 0, 1 << 40},
		{"kept_packets", int64(c.KeptPackets), -1, 1 << 20},
		{"kept_bytes_max", c.KeptBytesMax, -1, 1 << 40},
		{"arrivals_max", int64(c.ArrivalsMax), 1, 1 << 30},
		{"arrivals_bytes_max", c.ArrivalsBytesMax, 1, 1 << 40},
		{"peers_max", int64(c.PeersMax), 1, 1 << 20},
		{"half_open_max", int64(c.HalfOpenMax), 1, 1 << 20},
		{"peers_per_address", int64(c.PeersPerAddress), 1, 1 << 20},
		{"peers_per_host", int64(c.PeersPerHost), -1, 1 << 20},
		{"label_bytes", int64(len(c.Label)), 0, frag.LabelBytesMax},
		{"regions_max", int64(c.RegionsMax), 1, 1 << 16},
		{"registrations_kept", int64(c.RegistrationsKept), 0, 1 << 16},
		{"handshake_timeout", int64(c.HandshakeTimeout), int64(time.Millisecond), int64(time.Hour)},
		{"peer_timeout", int64(c.PeerTimeout), int64(10 * time.Millisecond), int64(time.Hour)},
		{"away", int64(c.Away), 0, int64(time.Hour)},
		{"away_max", int64(c.AwayMax), -1, int64(time.Hour)},
		{"keep_alive", int64(c.KeepAlive), -1, int64(time.Hour)},
		{"close_timeout", int64(c.CloseTimeout), int64(time.Millisecond), int64(time.Hour)},
		{"quantum_bytes", int64(c.QuantumBytes), 1, 1 << 30},
		{"pass_packets", int64(c.PassPackets), 1, 1024},
		{"poll_batch", int64(c.PollBatch), 1, 1024},
		{"idle_poll_every", int64(c.IdlePollEvery), 1, 64},
	} {
		if r.v < r.lo || r.v > r.hi {
			return fmt.Errorf("%w: %s is %d, must be %d to %d", ErrConfig, r.name, r.v, r.lo, r.hi)
		}
	}
	return nil
}

// DomainConfig returns the configuration of the fabric's Domain for a module of this Config.
func (c Config) DomainConfig(info fabric.Info) (fabric.DomainConfig, error) {
	c, err := c.WithDefaults(info)
	if err != nil {
		return fabric.DomainConfig{}, err
	}
	return fabric.DomainConfig{
		Buffers:     c.SendBuffers + port.ControlBuffers + 2*c.recvDepth(info) + max(c.KeptPackets, 0),
		BufferBytes: c.MTUBytes,
		RingBytes:   c.RingBytes,
	}, nil
}

// recvDepth is the number of buffers posted on each channel.
func (c Config) recvDepth(info fabric.Info) int {
	if info.RxDepth > 0 {
		return min(c.RecvDepth, info.RxDepth)
	}
	return c.RecvDepth
}

// segmentRoom returns the payload bytes of a datagram of size bytes behind a header of that kind.
func segmentRoom(sizeBytes int, kind frag.Kind) int {
	return sizeBytes - frag.HeaderBytes(kind, 0)
}
