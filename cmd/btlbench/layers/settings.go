package layers

import (
	"fmt"
	"os"
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

// GrantSettings reports whether a client may have the NAME=VALUE pairs that it asks a server for. A
// client cannot make a server allocate memory for more than a few times the default numbers. The
// function wait decides about each time-out.
func GrantSettings(settings []string, wait func(time.Duration) error) error {
	var c btl.Config
	if err := ApplySettings(&c, settings); err != nil {
		return err
	}
	for _, asked := range []time.Duration{
		c.PeerTimeout, c.HandshakeTimeout, c.CloseTimeout, c.Away,
	} {
		if err := wait(asked); err != nil {
			return err
		}
	}
	for _, n := range []struct {
		name        string
		asked, most int64
	}{
		{"window_packets", int64(c.Rules.WindowPackets), 16 << 10},
		{"send_buffers", int64(c.SendBuffers), 16 << 10},
		{"recv_depth", int64(c.RecvDepth), 4 << 10},
		{"fragments_max", int64(c.FragmentsMax), 16 << 10},
		{"peers_max", int64(c.PeersMax), 4 << 10},
	} {
		if n.asked > n.most {
			return fmt.Errorf("%s=%d: this server grants up to %d (serve --set)", n.name, n.asked, n.most)
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
