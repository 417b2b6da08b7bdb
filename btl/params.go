package btl

import (
	"errors"
	"fmt"
	"strings"

	"gobtl/btl/internal/setting"
)

// ErrParam means that no parameter has the given name, or that the given value is invalid.
var ErrParam = errors.New("btl: invalid tunable")

// EnvPrefix is the prefix of the environment variables that set parameters.
const EnvPrefix = "GOBTL_"

// Param describes a parameter of Config with its name, for programs that let users set parameters.
type Param struct {
	Name    string // "ack_delay"
	Default string // for users, the value or a hint on what it depends
	Help    string // sentences: meaning, unit, range, when to change it
	field   func(*Config) any
}

// Env returns the name of the parameter's environment variable.
func (p Param) Env() string { return EnvPrefix + strings.ToUpper(p.Name) }

// The variable "params" is the only list of parameters, from which their environment variables,
// their documentation and the method Set are derived. The list "params" does not contain those
// fields of Rules whose values belong to the profile.
var params = []Param{
	{
		"profile", "lossless over a reliable network; else adaptive",
		"Rules for the recovery of lost packets: adaptive follows the measured " +
			"network, usnic behaves as Open MPI's usnic BTL, and lossless suits a " +
			"network that loses nothing.",
		func(c *Config) any { return &c.Profile },
	},
	{
		"reliability", "auto",
		"Recovery over a reliable network: with auto the network recovers, if " +
			"both sides have one. With own gobtl always recovers.",
		func(c *Config) any { return &c.Reliability },
	},
	{
		"window_packets", "4096",
		"Packets in flight to one peer, at most: a power of two up to 65536. " +
			"Raise it at both sides for a long path of more than 1 Gbit/s.",
		func(c *Config) any { return &c.Rules.WindowPackets },
	},
	{
		"resend_timeout", "100ms; lossless: 2s",
		"Time without an ACK after which a packet is sent again. Profile adaptive: " +
			"only until the round trip is measured. A value below the round trip of " +
			"the path causes needless resends.",
		func(c *Config) any { return &c.Rules.ResendTimeout },
	},
	{
		"ack_delay", "50us",
		"Longest wait of an ACK for a data packet that can carry it, less than 1s. " +
			"Lower it if senders wait for ACKs; raise it for fewer packets.",
		func(c *Config) any { return &c.Rules.AckDelay },
	},
	{
		"ack_every", "64; lossless: 1024",
		"Number of packets received after which an ACK is sent at once. " +
			"Lower it if senders have a small window.",
		func(c *Config) any { return &c.Rules.AckEvery },
	},
	{
		"congestion", "delay",
		"Congestion control of profile adaptive: delay, or fixed for none. " +
			"Use fixed only on a network without other traffic.",
		func(c *Config) any { return &c.Rules.Congestion },
	},
	{
		"target_delay", "1ms",
		"Round trip above which profile adaptive sends less, at least 1us. Raise it " +
			"if the path itself, such as a tunnel, delays packets by milliseconds.",
		func(c *Config) any { return &c.Rules.TargetDelay },
	},
	{
		"mtu_bytes", "the provider's",
		"Size of the largest datagram for data, 512 to 65507 bytes. Lower it if " +
			"larger datagrams are lost on the path.",
		func(c *Config) any { return &c.MTUBytes },
	},
	{
		"tiny_bytes", "768",
		"Size of the largest datagram for ACKs and tiny messages, which overtake " +
			"larger ones: 256 bytes to mtu_bytes.",
		func(c *Config) any { return &c.TinyBytes },
	},
	{
		"pack_bytes", "8K",
		"Size of the largest packet that messages share, in bytes up to 65507. " +
			"1: each message has packets of its own, as with usnic.",
		func(c *Config) any { return &c.PackBytes },
	},
	{
		"send_buffers", "window_packets, at least 4096",
		"Packets in flight to all peers together, 64 to 1M. Each takes mtu_bytes " +
			"of memory. Raise it for many busy peers.",
		func(c *Config) any { return &c.SendBuffers },
	},
	{
		"recv_depth", "1024",
		"Receive buffers posted on each channel, 16 to 65536. Each takes mtu_bytes " +
			"of memory. Raise it if many peers send at the same time.",
		func(c *Config) any { return &c.RecvDepth },
	},
	{
		"command_depth", "recv_depth, and tx_depth",
		"Queue length of the command channel, for receives and sends, 16 to " +
			"recv_depth. Lower it to save memory.",
		func(c *Config) any { return &c.CommandDepth },
	},
	{
		"tx_depth", "the provider's",
		"Sends on each channel that may wait for their completion, 1 to 65536. " +
			"Lower it if the network device has short queues.",
		func(c *Config) any { return &c.TxDepth },
	},
	{
		"recv_buffer_bytes", "4M",
		"Receive buffer to request from the kernel for each channel, in bytes. " +
			"Negative: keep the system's. net.core.rmem_max limits it on Linux.",
		func(c *Config) any { return &c.RecvBufferBytes },
	},
	{
		"fragments_max", "4096",
		"Messages that are queued or unacknowledged, for all peers together, " +
			"16 to 1M. At the limit, Send returns ErrAgain. Raise it for many peers.",
		func(c *Config) any { return &c.FragmentsMax },
	},
	{
		"fragment_bytes_max", "1G",
		"Size of the largest message that is sent or received, 1K to 4G-1 bytes. " +
			"Lower it at a server to bound the memory for one message.",
		func(c *Config) any { return &c.FragmentBytesMax },
	},
	{
		"reassembly_bytes_max", "2G, at least fragment_bytes_max",
		"Memory for all messages that have arrived in part, up to 1024G bytes. " +
			"Messages beyond it wait. Lower it where memory is short.",
		func(c *Config) any { return &c.ReassemblyBytesMax },
	},
	{
		"kept_packets", "256",
		"Received packets that Module.Keep may hold without a copy, up to 1M, and " +
			"MiB of larger messages. Negative: Keep always copies.",
		func(c *Config) any { return &c.KeptPackets },
	},
	{
		"peers_max", "4096",
		"Connections of the module, 1 to 1M. Further peers are refused.",
		func(c *Config) any { return &c.PeersMax },
	},
	{
		"peers_per_host", "peers_max/4, at least 256",
		"Connections that peers on one host may open here, up to 1M. Raise it for " +
			"peers behind one router. Negative: no limit.",
		func(c *Config) any { return &c.PeersPerHost },
	},
	{
		"advertise", "the bound address",
		"Address that peers are told, as host:port or host:port,port. Set it if a " +
			"router maps another address to this host.",
		func(c *Config) any { return &c.Advertise },
	},
	{
		"label", "none",
		"Name of this process that peers are told, up to 32 bytes. The name is " +
			"not authenticated.",
		func(c *Config) any { return &c.Label },
	},
	{
		"regions_max", "1024",
		"Memory regions that are exposed to peers at the same time, 1 to 65536.",
		func(c *Config) any { return &c.RegionsMax },
	},
	{
		"handshake_timeout", "3s",
		"Longest time to connect, 1ms to 1h, and 1m more if the peer asks. Raise it for slow peers.",
		func(c *Config) any { return &c.HandshakeTimeout },
	},
	{
		"peer_timeout", "5s",
		"Time without an answer after which a peer is dead, 10ms to 1h. Lower it " +
			"to learn of dead peers sooner; busy peers may then be taken for dead.",
		func(c *Config) any { return &c.PeerTimeout },
	},
	{
		"away", "0",
		"Longest time that this process computes without calling gobtl, up to 1h. " +
			"Peers extend their peer_timeout by it, by at most 1m.",
		func(c *Config) any { return &c.Away },
	},
	{
		"keep_alive", "20s",
		"Silence after which a peer is probed, up to 1h. Lower it for firewalls " +
			"that forget quickly. Negative: dead idle peers remain undetected.",
		func(c *Config) any { return &c.KeepAlive },
	},
	{
		"close_timeout", "1s",
		"Longest time that closing a connection waits for ACKs after the last new " +
			"one, 1ms to 1h. Raise it for slow paths.",
		func(c *Config) any { return &c.CloseTimeout },
	},
}

// Params returns a copy of the list of parameters.
func Params() []Param { return append([]Param(nil), params...) }

func param(name string) (Param, error) {
	for _, p := range params {
		if p.Name == name {
			return p, nil
		}
	}
	return Param{}, fmt.Errorf("%w: there is no %q", ErrParam, name)
}

// Set sets the parameter with the given name. Durations have Go's notation (50us, 1.5s). Sizes can
// have a suffix K, M or G, for powers of 1024. Set returns ErrParam for an unknown name or an
// invalid notation, but does not check ranges, which Validate does.
func (c *Config) Set(name, value string) error {
	p, err := param(name)
	if err != nil {
		return err
	}
	if err := setting.Assign(p.field(c), value); err != nil {
		return fmt.Errorf("%w: %s=%q: %w", ErrParam, name, value, err)
	}
	return nil
}

// Get returns the value of the parameter with the given name, in the notation of Set. For an
// unknown name, Get returns "". A zero value as the result of Get, such as "0", means that the
// default value is in use.
func (c *Config) Get(name string) string {
	p, err := param(name)
	if err != nil {
		return ""
	}
	return setting.Text(p.field(c))
}

// LoadEnv sets every parameter that has an environment variable in environ, which has the form of
// os.Environ. The result "names" of LoadEnv contains the names of the parameters that were set. If
// a variable begins with EnvPrefix but names no parameter, LoadEnv returns an error, in order to
// detect misspelt names. Variables that begin with GOBTL_TEST_ are ignored.
func (c *Config) LoadEnv(environ []string) (names []string, err error) {
	for _, kv := range environ {
		key, value, _ := strings.Cut(kv, "=")
		name, ok := strings.CutPrefix(key, EnvPrefix)
		if !ok || strings.HasPrefix(name, "TEST_") {
			continue
		}
		name = strings.ToLower(name)
		if err := c.Set(name, value); err != nil {
			return names, fmt.Errorf("environment variable %s: %w", key, err)
		}
		names = append(names, name)
	}
	return names, nil
}
