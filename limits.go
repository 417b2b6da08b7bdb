package gobtl

import (
	"fmt"
	"time"

	"gobtl/btl"
)

// checkTimes returns btl.ErrConfig for a time of the transport that is out of its range, as a time
// of 20 without a unit is, which means 20 ns. A value of 0 is the default.
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
