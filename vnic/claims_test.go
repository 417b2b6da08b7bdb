package vnic

import "testing"

// TestClaimStays: another host that reports an address later does not get it, whatever its LID,
// until the first host leaves.
func TestClaimStays(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b, c := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil)),
		d.join(3, testAgent("c", nil))
	d.run()
	const vm MAC = 0x00DD00000001
	at := func(want uint32, when string) {
		t.Helper()
		d.run()
		if dlid, _ := b.Port(1).MACs.Lookup(vm); dlid != want {
			t.Errorf("%s: the address is at LID %d, want %d", when, dlid, want)
		}
	}
	c.SetMACs(d.now, 1, []MAC{vm}, nil)
	at(3, "reported once")
	a.SetMACs(d.now, 1, []MAC{vm}, nil)
	at(3, "reported by another host")
	if h := d.manager.hosts; h["a"].Problem == "" || h["c"].Problem != "" {
		t.Errorf("problems: %q, %q", h["a"].Problem, h["c"].Problem)
	}
	d.manager.Disconnect(3)
	delete(d.agents, 3)
	at(1, "the first host has left")
	d.join(3, c)
	at(1, "the first host is back")
	a.SetMACs(d.now, 1, nil, nil)
	at(3, "the second host no longer reports it")
}

// TestToldBeatsUntold: what a host says about the addresses of an absent host does not take the
// address of a host that reports it itself.
func TestToldBeatsUntold(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil)) // b is away
	d.run()
	const vm MAC = 0x00DD00000001
	ask := MACEntries{Num: MACEntriesPerMsg}
	said := MACEntries{Num: 1, Rows: []MACEntry{{MAC: vm, DLID: 2}}}
	d.manager.toldRows(d.manager.byHost["a"], 1, ask.Append(nil), said.Append(nil))
	d.run()
	if dlid, _ := a.Port(1).MACs.Lookup(vm); dlid != 2 {
		t.Fatalf("before: at LID %d", dlid)
	}
	c := d.join(3, testAgent("c", nil))
	d.run()
	c.SetMACs(d.now, 1, []MAC{vm}, nil)
	d.run()
	if dlid, _ := a.Port(1).MACs.Lookup(vm); dlid != 3 {
		t.Errorf("at LID %d, of a host that has reported nothing", dlid)
	}
}
