package gobtl

import (
	"fmt"
	"time"

	"gobtl/btl"
)

// checkTimes returns btl.ErrConfig if a duration in the transport's Config is out of range, and nil
// otherwise. A typical error is a duration of 20 without a unit, which means 20 ns. A value of 0
// means the default.
func checkTimes(c *btl.Config) error {
	for _, t := range []struct {
		name  string
		value time.Duration
		least time.Duration
	}{
		{"HandshakeTimeout", c.HandshakeTimeout, time.Millisecond},
		{"PeerTimeout", c.PeerTimeout, 10 * time.Millisecond},
		{"Away", c.Away, 0},
		{"KeepAlive", max(c.KeepAlive, 0), 10 * time.Millisecond},
		{"CloseTimeout", c.CloseTimeout, time.Millisecond},
	} {
		if t.value != 0 && (t.value < t.least || t.value > time.Hour) {
			return fmt.Errorf("gobtl: %w: Transport.%s is %v, must be %v to %v", btl.ErrConfig, t.name,
				t.value, t.least, time.Hour)
		}
	}
	return nil
}
