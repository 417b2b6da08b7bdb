package main

import (
	"fmt"
	"os"
	"strings"
	"time"

	"gobtl/btl"
)

// keepAliveParts is how often within the peer timeout an idle connection asks for a sign of life.
const keepAliveParts = 4

// moduleConfig is the transport's configuration for a side: the defaults, then the environment of
// this process, then the flags.
func moduleConfig(cfg *sideConfig) (btl.Config, error) {
	var c btl.Config
	if _, err := c.LoadEnv(os.Environ()); err != nil {
		return c, err
	}
	c.PeerTimeout = cfg.peerTimeout()
	c.KeepAlive = max(cfg.peerTimeout()/keepAliveParts, time.Millisecond)
	c.HandshakeTimeout = cfg.timeout()
	if cfg.Profile != "" {
		c.Profile = cfg.Profile
	}
	if cfg.MTUBytes != 0 {
		c.MTUBytes = cfg.MTUBytes
	}
	return c, applySettings(&c, cfg.Set)
}

// applySettings applies NAME=VALUE pairs.
func applySettings(c *btl.Config, settings []string) error {
	for _, s := range settings {
		name, value, _ := strings.Cut(s, "=")
		if !isParam(name) {
			return unknownParam(name)
		}
		if err := c.Set(name, value); err != nil {
			return fmt.Errorf("--set %s: %w", s, err)
		}
	}
	return nil
}

// settingName is the NAME of NAME=VALUE.
func settingName(setting string) string {
	name, _, _ := strings.Cut(setting, "=")
	return name
}

// paramNames lists the transport's tunables.
func paramNames() []string {
	var names []string
	for _, p := range btl.Params() {
		names = append(names, p.Name)
	}
	return names
}

func isParam(name string) bool {
	for _, p := range btl.Params() {
		if p.Name == name {
			return true
		}
	}
	return false
}

func unknownParam(name string) error {
	return fmt.Errorf("unknown tunable %q%s; see \"btlbench params\"", name,
		suggestion(name, paramNames()))
}
