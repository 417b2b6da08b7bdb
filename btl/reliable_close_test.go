package btl

import (
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// Of two peers, each of which sends one large message and closes, the receiver has memory for one
// message. The refused message is sent again before the Bye of its connection.
func TestCloseBesideRefused(t *testing.T) {
	small := relyConfig()
	small.FragmentBytesMax, small.ReassemblyBytesMax = 100_000, 100_000
	r := newRelied(t, sim.Config{}, small, small, small)
	n := 0
	if err := r.mods[0].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	eps := []*Endpoint{r.connect(1, 0), r.connect(2, 0)}
	ends := make([]error, len(eps))
	for i, ep := range eps {
		r.send(ep, 1, 90_000, &ends[i])
		ep.Close(ep.Now())
	}
	r.run(5 * time.Second)
	for i, err := range ends {
		if err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	again := counter(r.mods[1], CntRetransmitNack) + counter(r.mods[2], CntRetransmitNack)
	if n != len(ends) || again == 0 {
		t.Errorf("%d of %d messages arrived, and %d packets were sent again", n, len(ends), again)
	}
}
