package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/reliability"
)

// Config configures a module. WithDefaults replaces each zero field by its default, and Validate
// checks the result.
type Config struct {
	// Profile names the rules for loss recovery, which are "adaptive", "usnic" or "lossless". The
	// profile "usnic" has the rules of Open MPI's usnic BTL. The default Profile is "lossless" over a
	// reliable and ordered provider, and "adaptive" over a provider that is unreliable or unordered.
	Profile string
	// Reliability selects whether the provider or the module recovers from losses. With "auto" the
	// provider recovers from losses if the providers of both sides are reliable and ordered, and
	// otherwise the module recovers from losses. If Reliability is "own", the module always recovers
	// from losses.
	Reliability string
	// Each field of Rules that is not zero replaces the profile's value of this field. Programs need
	// only those fields of Rules that Params lists. The fields of Rules that Params does not list are
	// for simulations and experiments.
	Rules reliability.Rules

	// MTUBytes is the size of the largest datagram of the data channel, 512 to 65507. An MTUBytes
	// of 0 means the provider's MTU, or 65472 if the provider's MTU is above 65507.
	MTUBytes int
	// TinyBytes is the size of the largest datagram of the command channel, 256 to MTUBytes. Fragments
	// that fit into a datagram of TinyBytes use the command channel, ahead of large fragments. A
	// TinyBytes of 0 means 768, or MTUBytes if MTUBytes is below 768.
	TinyBytes int

	// PackBytes is the maximum size of a packet that several small fragments share, at most 65507 and
	// at most the peer's MTU. Small fragments share a packet if at least two of them fit into
	// PackBytes. At an MTU of at most 9000, a packet can contain the end of one large fragment and the
	// beginning of the next large fragment. A PackBytes of 0 means 8 KiB. With a PackBytes of 1, this
	// module sends each fragment in packets of its own. A module always accepts packets with several
	// fragments.
	PackBytes int

	// SendBuffers is the number of buffers for packets in flight and for fragments that Alloc has
	// returned, for all peers together, 64 to 1<<20. A SendBuffers of 0 means the larger of
	// Rules.WindowPackets and 4096. Each send buffer takes MTUBytes of memory, which most providers
	// allocate only at its first use. A sole peer can use at most seven eighths of SendBuffers. With
	// several peers, a peer that uses n send buffers gets one more only while more than n are free.
	SendBuffers int
	// RecvDepth is the number of receive buffers posted on each channel, 16 to 1<<16. A RecvDepth
	// of 0 means 1024.
	RecvDepth int
	// CommandDepth is the number of receive buffers posted on the command channel, 16 to RecvDepth.
	// CommandDepth is also the maximum number of sends on the command channel that wait for their
	// completions. A CommandDepth of 0 means RecvDepth for receives and TxDepth for sends. A provider
	// without a socket buffer of its own can store at most CommandDepth unread packets, so with such a
	// provider CommandDepth limits the sum of the credits of all peers.
	CommandDepth int
	// TxDepth is the maximum number of sends that wait for their completions on each channel. A
	// TxDepth of 0 means the provider's queue depth.
	TxDepth int
	// RecvBufferBytes is the requested size of the kernel's receive buffer for each channel, if the
	// provider has such a buffer. A RecvBufferBytes of 0 requests 4 MiB, and a negative value keeps
	// the system's default. The size of the receive buffer that the kernel grants limits the credits
	// that peers get.
	RecvBufferBytes int

	// FragmentsMax is the number of fragment descriptors, 16 to 1<<20. Each queued or unacknowledged
	// send uses a descriptor. A FragmentsMax of 0 means 4096. A sole peer can use at most seven
	// eighths of FragmentsMax. With several peers, a peer that uses n descriptors gets one more only
	// while more than n are free.
	FragmentsMax int
	// FragmentBytesMax is the size of the largest fragment that is sent or received, 1 KiB to less
	// than 4 GiB. A FragmentBytesMax of 0 means 1 GiB.
	FragmentBytesMax uint32
	// ReassemblyBytesMax is the maximum memory for all partly received fragments together. Chunks that
	// would exceed ReassemblyBytesMax are dropped, and the sender retransmits them later. A
	// ReassemblyBytesMax of 0 means 2 GiB, or FragmentBytesMax if FragmentBytesMax is above 2 GiB.
	ReassemblyBytesMax int64
	// KeptPackets is the maximum number of receive buffers that handlers can keep with Module.Keep, at
	// most 1<<20. The module allocates KeptPackets packet buffers in addition to its send and receive
	// buffers. Handlers can keep at most KeptPackets MiB of fragments that needed several packets.
	// Kept fragments do not count towards ReassemblyBytesMax. A KeptPackets of 0 means 256, and a
	// negative value means that Module.Keep always copies.
	KeptPackets int

	// PeersMax is the maximum number of endpoints, 1 to 1<<20. A PeersMax of 0 means 4096.
	PeersMax int
	// PeersPerHost is the maximum number of endpoints that peers on one host can open to this module,
	// at most 1<<20. Peers at one address (host and port) can open at most 16 endpoints. Hosts behind
	// a NAT that share one address count as one host. PeersPerHost has an effect only if the fabric
	// tells hosts apart, and does not limit the endpoints that this side opens. A PeersPerHost of 0
	// means a quarter of PeersMax but at least 256, and never more than seven eighths of PeersMax. A
	// negative PeersPerHost means no limit.
	PeersPerHost int
	// Advertise is the address that is announced to peers instead of the bound address, in the
	// notation of Module.Dial. Advertise is needed, for example, if a NAT maps a public address to
	// this host. An empty Advertise means the bound address. Peers connect to the advertised address.
	// A peer whose fabric reports source addresses, as udp does, replies to the source address of this
	// module's datagrams.
	Advertise string
	// Label is a name of this module, at most 32 bytes long, that peers get with the connection
	// request (see Request). The label is not authenticated.
	Label string
	// RegionsMax is the maximum number of memory regions exposed to peers, 1 to 1<<16. A RegionsMax
	// of 0 means 1024.
	RegionsMax int

	// HandshakeTimeout is the maximum time from Connect until the handshake is complete. A peer that
	// keeps the connection request (see Keep) can extend the HandshakeTimeout by up to one minute. A
	// HandshakeTimeout of 0 means 3 s.
	HandshakeTimeout time.Duration
	// PeerTimeout is the time after which a peer is declared dead if the peer has not acknowledged the
	// oldest packet in flight, or has not answered a probe. Only acknowledgements and answers to
	// probes restart the PeerTimeout. An idle peer is declared dead at the earliest three quarters of
	// PeerTimeout after the first probe. A PeerTimeout of 0 means 5 s. A process that does not call
	// Progress for longer than PeerTimeout is declared dead by its peers, unless it announces the
	// duration with Away, or uses package runner. Retransmission time-outs are at most a quarter of
	// PeerTimeout.
	PeerTimeout time.Duration
	// Away is the longest time for which this module's process computes without a call of Progress, at
	// most one hour. Peers learn the value of Away in the handshake, and extend their PeerTimeout for
	// this module by Away, but by no more than one minute. An Away of 0 requests no extension. Away
	// does not extend CloseTimeout.
	Away time.Duration
	// KeepAlive is the time without packets on a channel, in either direction, after which this side
	// probes the peer on that channel. The probes detect a dead peer even if there is no traffic, and
	// keep the port mappings of firewalls and NATs alive. A KeepAlive of 0 means 20 s, and a negative
	// value turns the probes off. If the module runs short of memory or endpoints, it probes silent
	// peers before KeepAlive has passed.
	KeepAlive time.Duration
	// CloseTimeout is the maximum time for which a closing endpoint waits without any newly
	// acknowledged packet. A CloseTimeout of 0 means 1 s.
	CloseTimeout time.Duration

	// Random returns random numbers for the incarnation, connection tags and first sequence numbers.
	// If Random is nil, the module uses crypto/rand. Simulators set a function of their own.
	Random func() uint64

	limits limits.Limits
}

// SetLimits changes internal limits for tests and the simulator. Programs outside of this Go module
// cannot call SetLimits, because they cannot import the type of its argument.
func (c *Config) SetLimits(l limits.Limits) { c.limits = l }

// These are the values of Config.Reliability.
const (
	reliabilityAuto = "auto"
	reliabilityOwn  = "own"
)

// profileFor returns the name of the default Profile for a provider.
func profileFor(info fabric.Info) string {
	if info.Reliable && info.Ordered {
		return "lossless"
	}
	return "adaptive"
}

// WithDefaults replaces the zero fields of c by the defaults for a provider with the given Info,
// and returns the result of Validate as its error.
func (c Config) WithDefaults(info fabric.Info) (Config, error) {
	set(&c.Profile, profileFor(info))
	set(&c.Reliability, reliabilityAuto)
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
	set(&c.CommandDepth, c.RecvDepth)
	set(&c.FragmentsMax, 4096)
	set(&c.FragmentBytesMax, 1<<30)
	set(&c.ReassemblyBytesMax, 2<<30)
	c.ReassemblyBytesMax = max(c.ReassemblyBytesMax, int64(c.FragmentBytesMax))
	set(&c.KeptPackets, 256)
	c.KeptPackets = max(c.KeptPackets, -1)
	set(&c.PeersMax, 4096)
	set(&c.PeersPerHost, min(max(c.PeersMax/4, 256), c.PeersMax-c.PeersMax/8))
	c.PeersPerHost = max(c.PeersPerHost, -1)
	set(&c.RegionsMax, 1024)
	set(&c.HandshakeTimeout, 3*time.Second)
	set(&c.PeerTimeout, 5*time.Second)
	set(&c.KeepAlive, 20*time.Second)
	c.KeepAlive = max(c.KeepAlive, -1)
	set(&c.CloseTimeout, time.Second)
	c.setDefaultLimits()
	return c, c.Validate()
}

// keptBytesEach times Config.KeptPackets is the memory limit for kept fragments of several packets.
const keptBytesEach = 1 << 20

// setDefaultLimits replaces the zero fields of c.limits by their defaults.
func (c *Config) setDefaultLimits() {
	l := &c.limits
	set(&l.QuantumBytes, 44*1472) // Ethernet packets of one send with UDP segmentation offload
	set(&l.PassPackets, 88)
	set(&l.PollBatch, 128)
	set(&l.IdlePollEvery, 16)
	set(&l.HalfOpenMax, 256)
	set(&l.PeersPerAddress, 16)
	set(&l.AwayMax, time.Minute)
	set(&l.KeptBytesMax, max(int64(c.KeptPackets)*keptBytesEach, -1))
	keep := max(c.ReassemblyBytesMax/16, int64(c.FragmentBytesMax)) // at least one fragment
	set(&l.ReassemblyKeepBytes, min(keep, 64<<20))
}

func set[T comparable](p *T, v T) {
	if *p == *new(T) {
		*p = v
	}
}

// providersMTU returns the default datagram size for a provider whose MTU is the argument "bytes".
// An MTU above 65507 is reduced to the largest multiple of 64 (a cache line) below 65507, so that
// chunks are aligned.
func providersMTU(bytes int) int {
	if bytes > mtuBytesMax {
		return mtuBytesMax &^ 63
	}
	return bytes
}

const (
	mtuBytesMax = 65507
	mtuBytesMin = 512
	// tinyBytesMin is the size of the largest handshake packet.
	tinyBytesMin = 256
)

// Validate returns ErrConfig, with the name of the first value that is out of range, or nil if all
// values are in range. Before Validate is called, WithDefaults must have replaced the zero fields
// of the Config.
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
		{"send_buffers", int64(c.SendBuffers), 64, 1 << 20},
		{"recv_depth", int64(c.RecvDepth), 16, 1 << 16},
		{"command_depth", int64(c.CommandDepth), 16, int64(c.RecvDepth)},
		{"tx_depth", int64(c.TxDepth), 0, 1 << 16},
		{"fragments_max", int64(c.FragmentsMax), 16, 1 << 20},
		{"fragment_bytes_max", int64(c.FragmentBytesMax), 1 << 10, 1<<32 - 1},
		{"reassembly_bytes_max", c.ReassemblyBytesMax, int64(c.FragmentBytesMax), 1 << 40},
		{"kept_packets", int64(c.KeptPackets), -1, 1 << 20},
		{"peers_max", int64(c.PeersMax), 1, 1 << 20},
		{"peers_per_host", int64(c.PeersPerHost), -1, 1 << 20},
		{"label_bytes", int64(len(c.Label)), 0, frag.LabelBytesMax},
		{"regions_max", int64(c.RegionsMax), 1, 1 << 16},
		{"handshake_timeout", int64(c.HandshakeTimeout), int64(time.Millisecond), int64(time.Hour)},
		{"peer_timeout", int64(c.PeerTimeout), int64(10 * time.Millisecond), int64(time.Hour)},
		{"away", int64(c.Away), 0, int64(time.Hour)},
		{"keep_alive", int64(c.KeepAlive), -1, int64(time.Hour)},
		{"close_timeout", int64(c.CloseTimeout), int64(time.Millisecond), int64(time.Hour)},
	} {
		if r.v < r.lo || r.v > r.hi {
			if r.hi == int64(time.Hour) {
				v, lo, hi := time.Duration(r.v), time.Duration(r.lo), time.Duration(r.hi)
				return fmt.Errorf("%w: %s is %v, must be %v to %v", ErrConfig, r.name, v, lo, hi)
			}
			return fmt.Errorf("%w: %s is %d, must be %d to %d", ErrConfig, r.name, r.v, r.lo, r.hi)
		}
	}
	return nil
}

// DomainConfig returns the settings with which the application must open the Domain for a module.
func (c Config) DomainConfig(info fabric.Info) (fabric.DomainConfig, error) {
	c, err := c.WithDefaults(info)
	if err != nil {
		return fabric.DomainConfig{}, err
	}
	return fabric.DomainConfig{
		Buffers: c.arenaBuffers(info), BufferBytes: c.MTUBytes,
	}, nil
}

// arenaBuffers returns the number of packet buffers that a module needs in the Domain's arena.
func (c Config) arenaBuffers(info fabric.Info) int {
	command, data := c.recvDepths(info)
	return c.SendBuffers + port.ControlBuffers + command + data + max(c.KeptPackets, 0)
}

// recvDepths returns the numbers of receive buffers posted on the two channels.
func (c Config) recvDepths(info fabric.Info) (command, data int) {
	if info.RxDepth > 0 {
		return min(c.CommandDepth, info.RxDepth), min(c.RecvDepth, info.RxDepth)
	}
	return c.CommandDepth, c.RecvDepth
}

// segmentRoom returns the maximum number of payload bytes of a packet of the given kind in a
// datagram of sizeBytes.
func segmentRoom(sizeBytes int, kind frag.Kind) int {
	return sizeBytes - frag.HeaderBytes(kind, 0)
}

// forPeers returns the settings that package peer uses.
func (c *Config) forPeers() *peer.Config {
	return &peer.Config{
		Limits: c.limits, SendBuffers: c.SendBuffers, PackBytes: c.PackBytes,
		FragmentsMax: c.FragmentsMax, PeersMax: c.PeersMax, PeersPerHost: c.PeersPerHost,
		RegionsMax:       c.RegionsMax,
		FragmentBytesMax: c.FragmentBytesMax, ReassemblyBytesMax: c.ReassemblyBytesMax,
		PeerTimeout: c.PeerTimeout, KeepAlive: c.KeepAlive, Away: c.Away,
		HandshakeTimeout: c.HandshakeTimeout, CloseTimeout: c.CloseTimeout,
		Label: c.Label, Random: c.Random,
	}
}

// forPort returns the settings of the command and the data channel.
func (c *Config) forPort(info fabric.Info) port.Config {
	command, data := c.recvDepths(info)
	return port.Config{
		SendBuffers: c.SendBuffers, CommandDepth: command, RecvDepth: data, TxDepth: c.TxDepth,
		Spare: max(c.KeptPackets, 0), RecvBufferBytes: c.RecvBufferBytes,
		CommandBytes: c.TinyBytes, DataBytes: c.MTUBytes,
		PollBatch: c.limits.PollBatch, IdlePollEvery: c.limits.IdlePollEvery,
		Reliable: c.Reliability == reliabilityAuto,
	}
}
