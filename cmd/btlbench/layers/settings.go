package layers

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// keepAliveParts is the number of keep-alive probes of an idle connection within the peer time-out.
const keepAliveParts = 4

// moduleConfig is the transport's configuration for a side, from the defaults, the environment and
// the flags, in ascending precedence.
func moduleConfig(cfg *Config) (btl.Config, error) {
	var c btl.Config
	if _, err := c.LoadEnv(os.Environ()); err != nil {
		return c, err
	}
	c.PeerTimeout = cfg.PeerTimeout()
	c.KeepAlive = max(cfg.PeerTimeout()/keepAliveParts, time.Millisecond)
	c.HandshakeTimeout = cfg.Timeout()
	if cfg.Profile != "" {
		c.Profile = cfg.Profile
	}
	if cfg.MTUBytes != 0 {
		c.MTUBytes = cfg.MTUBytes
	}
	return c, ApplySettings(&c, cfg.Set)
}

// ApplySettings applies settings NAME=VALUE.
func ApplySettings(c *btl.Config, settings []string) error {
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if !IsParam(name) {
			return UnknownParam(name)
		}
		if err := c.Set(name, value); err != nil {
			return fmt.Errorf("--set %s: %w", s, err)
		}
	}
	return nil
}

// grantedAny are the settings of which a client may have every valid value at a server.
var grantedAny = []string{
	"profile", "reliability", "resend_timeout", "ack_delay", "ack_every", "congestion",
	"target_delay", "mtu_bytes", "tiny_bytes", "pack_bytes",
}

// granted are the settings that cost memory, with the largest value that a client may have at a
// server. The largest values are the defaults, or a few times the defaults.
var granted = []struct {
	name  string
	asked func(*btl.Config) int64
	most  int64
}{
	{"window_packets", func(c *btl.Config) int64 { return int64(c.Rules.WindowPackets) }, 16 << 10},
	{"send_buffers", func(c *btl.Config) int64 { return int64(c.SendBuffers) }, 16 << 10},
	{"recv_depth", func(c *btl.Config) int64 { return int64(c.RecvDepth) }, 4 << 10},
	{"command_depth", func(c *btl.Config) int64 { return int64(c.CommandDepth) }, 4 << 10},
	{"tx_depth", func(c *btl.Config) int64 { return int64(c.TxDepth) }, 4 << 10},
	{"recv_buffer_bytes", func(c *btl.Config) int64 { return int64(c.RecvBufferBytes) }, 64 << 20},
	{"fragments_max", func(c *btl.Config) int64 { return int64(c.FragmentsMax) }, 16 << 10},
	{"fragment_bytes_max", func(c *btl.Config) int64 { return int64(c.FragmentBytesMax) }, 1 << 30},
	{"reassembly_bytes_max", func(c *btl.Config) int64 { return c.ReassemblyBytesMax }, 2 << 30},
	{"kept_packets", func(c *btl.Config) int64 { return int64(c.KeptPackets) }, 1 << 10},
	{"peers_max", func(c *btl.Config) int64 { return int64(c.PeersMax) }, 4 << 10},
	{"peers_per_host", func(c *btl.Config) int64 { return int64(c.PeersPerHost) }, 4 << 10},
	{"regions_max", func(c *btl.Config) int64 { return int64(c.RegionsMax) }, 4 << 10},
}

// grantedTimes are the settings that are time-outs. A negative time is endless.
var grantedTimes = []struct {
	name  string
	asked func(*btl.Config) time.Duration
}{
	{"peer_timeout", func(c *btl.Config) time.Duration { return c.PeerTimeout }},
	{"handshake_timeout", func(c *btl.Config) time.Duration { return c.HandshakeTimeout }},
	{"close_timeout", func(c *btl.Config) time.Duration { return c.CloseTimeout }},
	{"away", func(c *btl.Config) time.Duration { return c.Away }},
	{"keep_alive", func(c *btl.Config) time.Duration { return c.KeepAlive }},
}

// settingBytesMax is the maximum length of a setting that a client asks a server for.
const settingBytesMax = 256

// GrantSettings reports whether a client may have the NAME=VALUE pairs that it asks a server for. A
// client cannot make a server allocate memory for more than a few times the default numbers. The
// function wait decides about each time-out. GrantSettings refuses a setting that no list names.
func GrantSettings(settings []string, wait func(time.Duration) error) error {
	for _, s := range settings {
		if len(s) > settingBytesMax {
			return fmt.Errorf("a setting of %d bytes: this server grants up to %d", len(s), settingBytesMax)
		}
	}
	var c btl.Config
	if err := ApplySettings(&c, settings); err != nil {
		return err
	}
	listed := slices.Clone(grantedAny)
	for _, g := range grantedTimes {
		listed = append(listed, g.name)
		asked := g.asked(&c)
		if asked < 0 {
			return fmt.Errorf("%s=%v: this server grants no endless time (serve --set)", g.name, asked)
		}
		if err := wait(asked); err != nil {
			return fmt.Errorf("%s: %w", g.name, err)
		}
	}
	for _, g := range granted {
		listed = append(listed, g.name)
		if n := g.asked(&c); n > g.most {
			return fmt.Errorf("%s=%d: this server grants up to %d (serve --set)", g.name, n, g.most)
		}
	}
	for _, s := range settings {
		if name, _, _ := strings.Cut(s, "="); !slices.Contains(listed, name) {
			return fmt.Errorf("%s: this server does not grant that to clients (serve --set)", s)
		}
	}
	return nil
}

// paramNames lists the parameters of the transport.
func paramNames() []string {
	var names []string
	for _, p := range btl.Params() {
		names = append(names, p.Name)
	}
	return names
}

// IsParam reports whether the transport has a parameter of that name.
func IsParam(name string) bool {
	for _, p := range btl.Params() {
		if p.Name == name {
			return true
		}
	}
	return false
}

// UnknownParam is the error for an unknown parameter, and contains the most similar known name.
func UnknownParam(name string) error {
	return fmt.Errorf("unknown tunable %q%s; see \"btlbench params\"", name,
		plan.Suggestion(name, paramNames()))
}
