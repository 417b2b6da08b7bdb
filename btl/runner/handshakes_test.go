package runner

import (
	"errors"
	"testing"

	"gobtl/btl"
)

// The end of a handshake ends the calls that wait for its endpoint, and no others.
func TestHandshakesEnded(t *testing.T) {
	r, fails := new(Runner), errors.New("refused")
	one, other := new(btl.Endpoint), new(btl.Endpoint)
	calls := []*call{r.newCall(callConnect), r.newCall(callDial), r.newCall(callConnect)}
	h := handshakes{waiting: map[*btl.Endpoint][]*call{one: calls[:2], other: calls[2:]}}
	h.ended(one, fails)
	h.ended(one, nil) // no call waits for the endpoint
	for i, c := range calls {
		if ended := i < 2; c.ended() != ended || ended && !errors.Is(c.err, fails) {
			t.Errorf("call %d: ended %v, error %v", i, c.ended(), c.err)
		}
	}
	if h.clear(); len(h.waiting) != 0 {
		t.Errorf("%d endpoints are kept", len(h.waiting))
	}
}
