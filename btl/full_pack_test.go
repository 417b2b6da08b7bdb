package btl

import (
	"errors"
	"testing"
)

// A peer over a reliable fabric takes no packets, so that its sends stay in the fabric until they
// have used up its share of the send queue. A full Pack then takes no further message.
func TestFullPackBesideHeldSends(t *testing.T) {
	r, _, ep, _ := newBurst(t)
	r.open("y", relyConfig(), nil)
	r.connect(1, 2) // an endpoint that is alone may use nearly all of the send queue
	depth := r.mods[1].all.Port.Command.Caps.TxDepth
	ep.c.Counts.Held += depth
	data := make([]byte, 100)
	var err error
	for range 1000 {
		if err = ep.SendImmediate(ep.Now(), 1, data); err != nil {
			break
		}
	}
	ep.c.Counts.Held -= depth
	if !errors.Is(err, ErrAgain) {
		t.Errorf("messages to a peer without room: %v", err)
	}
	if err := r.mods[1].Check(); err != nil {
		t.Error(err)
	}
}
