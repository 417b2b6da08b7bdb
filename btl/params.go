package btl

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// ErrParam means that no parameter has the given name, or that the parameter cannot have the given
// value.
var ErrParam = errors.New("btl: invalid tunable")

// EnvPrefix is the prefix of the environment variables that set parameters.
const EnvPrefix = "GOBTL_"

// Param describes a parameter of Config with its name, for programs that let users set parameters.
type Param struct {
	Name    string // "ack_delay"
	Default string // for users, the value or a hint on what it depends
	Help    string // one line
	field   func(*Config) any
}

// Env returns the name of the parameter's environment variable.
func (p Param) Env() string { return EnvPrefix + strings.ToUpper(p.Name) }

// params is the only list of parameters, from which names, environment variables, documentation and
// the method Set are derived.
var params = []Param{
	{
		"profile", "by the provider", "recovery rules: adaptive, usnic, or lossless if the provider is",
		func(c *Config) any { return &c.Profile },
	},
	{
		"reliability", "auto", "who recovers losses: auto, a reliable provider if both ends have it; own",
		func(c *Config) any { return &c.Reliability },
	},
	{
		"window_packets", "4096", "packets in flight to one peer, a power of two up to 65536",
		func(c *Config) any { return &c.Rules.WindowPackets },
	},
	{
		"resend_timeout", "100ms", "wait before a packet is sent again; adaptive: the first guess",
		func(c *Config) any { return &c.Rules.ResendTimeout },
	},
	{
		"resend_timeout_max", "1.6s", "where doubling the resend time-out ends",
		func(c *Config) any { return &c.Rules.ResendTimeoutMax },
	},
	{
		"dup_ack_hold", "1ms", "usnic: time a packet sent again is spared by duplicate ACKs",
		func(c *Config) any { return &c.Rules.DupAckHold },
	},
	{
		"resends_per_pass", "adaptive: 32; else 16",
		"packets sent again in a pass of the progress loop, at most",
		func(c *Config) any { return &c.Rules.ResendsPerPass },
	},
	{
		"ack_delay", "50us", "time an ACK waits for a packet to ride on",
		func(c *Config) any { return &c.Rules.AckDelay },
	},
	{
		"ack_every", "64", "packets after which an ACK waits no longer",
		func(c *Config) any { return &c.Rules.AckEvery },
	},
	{
		"probe_timeout_min", "250us", "adaptive: least wait before the oldest packet is sent again",
		func(c *Config) any { return &c.Rules.ProbeTimeoutMin },
	},
	{
		"resend_timeout_min", "1ms", "adaptive: least wait before it is sent again once more",
		func(c *Config) any { return &c.Rules.ResendTimeoutMin },
	},
	{
		"congestion", "delay", "adaptive: congestion window, delay or fixed (none)",
		func(c *Config) any { return &c.Rules.Congestion },
	},
	{
		"initial_window", "32", "adaptive: congestion window to begin with, in packets",
		func(c *Config) any { return &c.Rules.InitialWindow },
	},
	{
		"target_delay", "1ms", "adaptive: round trip up to which a queue on the way is welcome",
		func(c *Config) any { return &c.Rules.TargetDelay },
	},
	{
		"withhold_every", "8192", "adaptive: of so many packets one is held back, to find out liars",
		func(c *Config) any { return &c.Rules.WithholdEvery },
	},
	{
		"mtu_bytes", "the provider's", "datagram size of the data channel, at most",
		func(c *Config) any { return &c.MTUBytes },
	},
	{
		"tiny_bytes", "768", "datagram size of the command channel: ACKs and tiny fragments",
		func(c *Config) any { return &c.TinyBytes },
	},
	{
		"pack_bytes", "8K", "largest packet that small fragments share; 1: they share none",
		func(c *Config) any { return &c.PackBytes },
	},
	{
		"mix_bytes", "9000",
		"largest MTU at which large fragments share packets where they meet; 1: never",
		func(c *Config) any { return &c.MixBytes },
	},
	{
		"send_buffers", "window_packets, at least 4096",
		"packets in flight or lent to the caller, all peers together",
		func(c *Config) any { return &c.SendBuffers },
	},
	{
		"recv_depth", "1024", "receive buffers posted on each channel",
		func(c *Config) any { return &c.RecvDepth },
	},
	{
		"command_depth", "recv_depth", "receive buffers posted on the command channel, and sends there",
		func(c *Config) any { return &c.CommandDepth },
	},
	{
		"tx_depth", "the provider's", "sends waiting for completion on each channel",
		func(c *Config) any { return &c.TxDepth },
	},
	{
		"recv_buffer_bytes", "4M", "kernel receive buffer to ask for; negative leaves the system's",
		func(c *Config) any { return &c.RecvBufferBytes },
	},
	{
		"ring_bytes", "the provider's", "ring to each peer's channel, where the provider has rings",
		func(c *Config) any { return &c.RingBytes },
	},
	{
		"fragments_max", "4096", "sends queued or unacknowledged, at most",
		func(c *Config) any { return &c.FragmentsMax },
	},
	{
		"fragment_bytes_max", "1G", "largest fragment",
		func(c *Config) any { return &c.FragmentBytesMax },
	},
	{
		"reassembly_bytes_max", "2G", "memory of all fragments being received, at most",
		func(c *Config) any { return &c.ReassemblyBytesMax },
	},
	{
		"reassembly_keep_bytes", "64M", "idle reassembly memory kept for reuse",
		func(c *Config) any { return &c.ReassemblyKeepBytes },
	},
	{
		"kept_packets", "256", "packets that handlers keep where they came, at most; negative: none",
		func(c *Config) any { return &c.KeptPackets },
	},
	{
		"kept_bytes_max", "256M", "memory of larger fragments that they keep; negative: none",
		func(c *Config) any { return &c.KeptBytesMax },
	},
	{
		"peers_max", "4096", "endpoints, at most",
		func(c *Config) any { return &c.PeersMax },
	},
	{
		"half_open_max", "256", "endpoints opened by peers that have not proven their address, at most",
		func(c *Config) any { return &c.HalfOpenMax },
	},
	{
		"peers_per_address", "16", "endpoints opened by peers of one address, at most",
		func(c *Config) any { return &c.PeersPerAddress },
	},
	{
		"peers_per_host", "peers_max/4, 256", "endpoints opened by peers of one host, at most",
		func(c *Config) any { return &c.PeersPerHost },
	},
	{
		"advertise", "where it is bound", "address that peers are told, host:port or host:port,port",
		func(c *Config) any { return &c.Advertise },
	},
	{
		"label", "none", "what peers are told that this one is called, up to 32 bytes",
		func(c *Config) any { return &c.Label },
	},
	{
		"regions_max", "1024", "exposed regions, at most",
		func(c *Config) any { return &c.RegionsMax },
	},
	{
		"registrations_kept", "0", "registrations kept after their last user is gone",
		func(c *Config) any { return &c.RegistrationsKept },
	},
	{
		"handshake_timeout", "3s", "time to reach a peer",
		func(c *Config) any { return &c.HandshakeTimeout },
	},
	{
		"peer_timeout", "5s", "silence after which a peer that owes an answer is dead",
		func(c *Config) any { return &c.PeerTimeout },
	},
	{
		"away", "0", "time that this process may compute without progress: peers are told",
		func(c *Config) any { return &c.Away },
	},
	{
		"away_max", "1m", "how much of that peers get who ask for it",
		func(c *Config) any { return &c.AwayMax },
	},
	{
		"keep_alive", "20s", "silence of a channel after which the peer is asked for a sign of life",
		func(c *Config) any { return &c.KeepAlive },
	},
	{
		"close_timeout", "1s", "silence after which closing an endpoint waits no longer",
		func(c *Config) any { return &c.CloseTimeout },
	},
	{
		"quantum_bytes", "64768", "bytes that an endpoint sends before the next one's turn",
		func(c *Config) any { return &c.QuantumBytes },
	},
	{
		"pass_packets", "88", "new packets in one pass of the progress loop, at most",
		func(c *Config) any { return &c.PassPackets },
	},
	{
		"poll_batch", "128", "completions taken from a channel in one pass, at most",
		func(c *Config) any { return &c.PollBatch },
	},
	{
		"idle_poll_every", "16", "passes between polls of an idle channel, within 20 us",
		func(c *Config) any { return &c.IdlePollEvery },
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

// Set sets the parameter with the given name. Durations have Go's notation (50us, 1.5s). Sizes may
// end with K, M or G for powers of 1024. Set returns ErrParam for an unknown name or an invalid
// notation, and Validate checks the ranges.
func (c *Config) Set(name, value string) error {
	p, err := param(name)
	if err != nil {
		return err
	}
	if err := assign(p.field(c), value); err != nil {
		return fmt.Errorf("%w: %s=%q: %w", ErrParam, name, value, err)
	}
	return nil
}

func assign(field any, value string) error {
	switch f := field.(type) {
	case *string:
		*f = value
		return nil
	case *time.Duration:
		d, err := time.ParseDuration(value)
		if err != nil {
			return errors.New("not a duration such as 50us, 100ms or 2s")
		}
		*f = d
		return nil
	}
	n, err := parseSize(value)
	if err != nil {
		return err
	}
	switch f := field.(type) {
	case *int:
		*f = int(n)
	case *int64:
		*f = n
	case *uint32:
		if n < 0 || n > math.MaxUint32 {
			return errors.New("out of range")
		}
		*f = uint32(n)
	}
	return nil
}

// parseSize parses a whole number with an optional suffix K, M or G for powers of 1024.
func parseSize(s string) (int64, error) {
	digits, shift := s, 0
	if n := len(s); n > 0 {
		switch s[n-1] {
		case 'k', 'K':
			digits, shift = s[:n-1], 10
		case 'm', 'M':
			digits, shift = s[:n-1], 20
		case 'g', 'G':
			digits, shift = s[:n-1], 30
		}
	}
	n, err := strconv.ParseInt(digits, 10, 64)
	if err != nil || n > math.MaxInt64>>shift || n < math.MinInt64>>shift {
		return 0, errors.New("not a whole number, optionally with K, M or G")
	}
	return n << shift, nil
}

// Get returns the value of the parameter with the given name, in the notation of Set. For an
// unknown name, Get returns "". If the returned value is zero, the parameter has its default
// value.
func (c *Config) Get(name string) string {
	p, err := param(name)
	if err != nil {
		return ""
	}
	switch f := p.field(c).(type) {
	case *string:
		return *f
	case *time.Duration:
		return f.String()
	case *int:
		return strconv.Itoa(*f)
	case *int64:
		return strconv.FormatInt(*f, 10)
	case *uint32:
		return strconv.FormatUint(uint64(*f), 10)
	}
	return ""
}

// LoadEnv sets every parameter that has an environment variable in environ, which has the form of
// os.Environ. LoadEnv returns the names of these parameters. A variable that begins with EnvPrefix
// and names no parameter is an error, to detect misspelt names. Variables that begin with
// GOBTL_TEST_ are ignored.
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
