package stream

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
)

// A call with a nil context is refused, and the port goes on.
func TestNilContext(t *testing.T) {
	t.Parallel()
	p := openPort(t, PortConfig{})
	tx, err := p.Send(newRing(t, 64, 4, 5), Config{Messages: 100})
	if err != nil {
		t.Fatal(err)
	}
	rx, err := p.Receive(newRing(t, 64, 4, 5), Config{Messages: 100})
	if err != nil {
		t.Fatal(err)
	}
	var none context.Context
	_, next := tx.Next(none)
	for what, err := range map[string]error{
		"Next": next, "Sender.Wait": tx.Wait(none), "Receiver.Wait": rx.Wait(none),
		"Close": p.Close(none),
	} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if _, err := tx.Next(t.Context()); err != nil {
		t.Errorf("the port has ended: %v", err)
	}
}
