package conn_test

import (
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/conn"
	"gobtl/fabric/mem"
)

// Dial with an endpoint of another module is an error, and breaks nothing.
func TestOtherModule(t *testing.T) {
	p := newPair(t, within(mem.New(mem.Config{})), conn.Config{}, btl.Config{})
	c1, _ := p.dial(t)
	if _, err := p.server.Dial(t.Context(), p.ep, "service"); !errors.Is(err, btl.ErrEndpoint) {
		t.Errorf("Dial: %v", err)
	}
	if _, err := c1.Write([]byte("x")); err != nil {
		t.Errorf("another Conn: %v", err)
	}
}
