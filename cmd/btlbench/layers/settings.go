package layers

import (
	"fmt"
	"os"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// keepAliveParts is how often within the peer timeout an idle connection asks for a sign of life.
const keepAliveParts = 4

// moduleConfig is the transport's configuration for a side: the defaults, then the environment of
// this process, then the flags.
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

// IsParam says whether the transport has a tunable of that name.
func IsParam(name string) bool {
	for _, p := range btl.Params() {
		if p.Name == name {
			return true
		}
	}
	return false
}

// UnknownParam is the error of a name that no tunable has, with the nearest that one has.
func UnknownParam(name string) error {
	return fmt.Errorf("unknown tunable %q%s; see \"btlbench params\"", name,
		plan.Suggestion(name, paramNames()))
}
