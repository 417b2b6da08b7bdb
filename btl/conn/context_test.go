package conn_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
)

// A Dial with a nil context is refused.
func TestNilContext(t *testing.T) {
	p := overNetwork(t, conn.Config{})
	var none context.Context
	_, err := p.client.Dial(none, p.ep, "service")
	_, again := p.client.DialContext(none, "", "mem")
	for what, err := range map[string]error{"Dial": err, "DialContext": again} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
}
