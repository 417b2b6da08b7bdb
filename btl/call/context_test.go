package call_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/call"
)

// A call with a nil context is refused, and the Node goes on.
func TestNilContext(t *testing.T) {
	client, server, peer := two(t, call.Config{})
	register(server)
	var none context.Context
	_, err := client.Call(none, peer, methodEcho, nil)
	for what, err := range map[string]error{
		"Call":       err,
		"CallStream": client.CallStream(none, peer, methodEcho, nil, nil),
		"Close":      client.Node.Close(none),
	} {
		if !errors.Is(err, btl.ErrContext) {
			t.Errorf("%s: %v, want ErrContext", what, err)
		}
	}
	if _, err := client.Call(t.Context(), peer, methodEcho, nil); err != nil {
		t.Error(err)
	}
}
