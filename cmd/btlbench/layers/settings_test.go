package layers

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/btl"
)

// Each setting of the transport has a decision: a client may have it in full, with a bound, as a
// time-out, or not at all. A setting without a decision is refused.
func TestGrantSettings(t *testing.T) {
	errLong := errors.New("too long")
	wait := func(asked time.Duration) error {
		if asked > time.Minute {
			return errLong
		}
		return nil
	}
	refused := []string{"advertise", "label"}
	most := map[string]string{
		"window_packets": "65536", "send_buffers": "1048576", "recv_depth": "65536",
		"command_depth": "65536", "tx_depth": "65536", "recv_buffer_bytes": "1073741823",
		"fragments_max": "1048576", "fragment_bytes_max": "4294967295",
		"reassembly_bytes_max": "1099511627776", "kept_packets": "1048576", "peers_max": "1048576",
		"peers_per_host": "1048576", "regions_max": "65536", "peer_timeout": "1h",
		"handshake_timeout": "1h", "close_timeout": "1h", "away": "1h", "keep_alive": "1h",
	}
	for _, p := range btl.Params() {
		value, bounded := most[p.Name]
		if !bounded {
			if slices.Contains(refused, p.Name) == slices.Contains(grantedAny, p.Name) {
				t.Errorf("%s: no decision, or two", p.Name)
			}
			value = map[string]string{"advertise": "127.0.0.1:1", "label": "x"}[p.Name]
			if value == "" {
				continue
			}
		}
		if GrantSettings([]string{p.Name + "=" + value}, wait) == nil {
			t.Errorf("granted: %s=%s", p.Name, value)
		}
	}
	long := "profile=" + strings.Repeat("x", 1<<16)
	if err := GrantSettings([]string{long}, wait); err == nil || len(err.Error()) > 200 {
		t.Errorf("a long setting: %v", err)
	}
	for _, g := range granted {
		var c btl.Config
		if err := c.Set(g.name, "64"); err != nil || g.asked(&c) != 64 {
			t.Errorf("%s reads %d, %v", g.name, g.asked(&c), err)
		}
	}
	for _, s := range []string{"ack_delay=20ms", "target_delay=5ms", "keep_alive=10s", "tx_depth=64"} {
		if err := GrantSettings([]string{s}, wait); err != nil {
			t.Errorf("%s: %v", s, err)
		}
	}
}
