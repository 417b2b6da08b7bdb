package vnic

import (
	"math/rand/v2"
	"testing"
)

// TestNames checks that the index of the endpoint names has exactly the names of the known hosts,
// however hosts with common names register, leave, and are removed from the plan.
func TestNames(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 1))
	d := newDesk(t, threeHosts())
	names := []string{"a", "b", "c"}
	for conn := range 200 {
		agent := testAgent(names[r.IntN(len(names))], nil)
		agent.cfg.Ways = testAgent(names[r.IntN(len(names))], nil).cfg.Ways
		d.join(conn+1, agent)
		d.run()
		if r.IntN(3) > 0 {
			for old := range d.agents {
				d.agents[old].Disconnect(old)
				d.manager.Disconnect(old)
				delete(d.agents, old)
			}
		}
		if r.IntN(10) == 0 {
			d.plan(&Plan{})
			d.plan(threeHosts())
			d.run()
		}
		want := make(map[endpointName]*HostState)
		for _, h := range d.manager.hosts {
			if h.known {
				h.ways.each(func(n endpointName) { want[n] = h })
			}
		}
		for n, h := range want {
			if d.manager.names[n] != h {
				t.Fatalf("connection %d: %v is not of host %s", conn, n, h.Name)
			}
		}
		if got := len(d.manager.names); got != len(want) {
			t.Fatalf("connection %d: %d names, want %d", conn, got, len(want))
		}
	}
}
