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

// ApplySettings applies NAME=VALUE pairs.
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

// paramNames lists the transport's tunables.
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
