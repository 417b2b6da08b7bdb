package vnic

import (
	"fmt"
	"slices"
	"testing"
	"time"
)

// restarted is a new life of a desk's manager; the agents are still to connect to it.
func (d *desk) restarted(plan *Plan) {
	d.t.Helper()
	for conn, agent := range d.agents {
		agent.Disconnect(conn)
	}
	d.agents = make(map[int]*Agent)
	d.manager = NewManager(ManagerConfig{Name: "lab", Instance: d.manager.cfg.Instance + 1})
	d.plan(plan)
	d.now = d.now.Add(6 * time.Second) // the lease of the life before has run out
	d.changes = 0
}

// TestRestartKeeps: to a host that registers first with a manager that has begun anew, the others
// stay reachable, and so do the addresses that their devices have reported.
func TestRestartKeeps(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b, c := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil)), d.join(3,
		testAgent("c", nil))
	d.run()
	reported := make([]MAC, 300)
	for i := range reported {
		reported[i] = 0x00DD00000000 + MAC(i)
	}
	b.SetMACs(d.now, 1, reported, nil)
	c.SetMACs(d.now, 1, []MAC{0x00CC00000000}, nil)
	d.run()
	was := a.Port(1).Tables
	whole := func(when string) {
		t.Helper()
		if len(a.LIDs()) != 2 || string(a.LIDs()[0].Ways.Module) != "m-b" {
			t.Fatalf("%s a reaches %+v", when, a.LIDs())
		}
		if a.Port(1).Tables != was {
			t.Fatalf("%s the tables of a are others: %d rows", when, len(a.Port(1).MACs.Entries()))
		}
	}
	d.restarted(threeHosts())
	d.each = func() { whole("while all come back") }
	for i, one := range []*Agent{a, b, c} {
		d.join(11+i, one)
		d.run()
		if !d.synced(one.cfg.Host) {
			t.Fatalf("host %s is not as it shall be", one.cfg.Host)
		}
	}
	d.each = nil
	// What b has given up meanwhile goes when it tells so, and not before.
	d.restarted(threeHosts())
	d.join(21, a)
	d.join(23, c)
	d.run()
	whole("without b")
	b.SetMACs(d.now, 1, reported[:7], nil)
	d.join(22, b)
	d.run()
	if _, ok := a.Port(1).MACs.Lookup(reported[7]); ok || len(a.Port(1).MACs.Entries()) != 3+7+1 {
		t.Errorf("%d rows", len(a.Port(1).MACs.Entries()))
	}
	// What a host has told holds against the tables of the others.
	d.restarted(threeHosts())
	b.SetMACs(d.now, 1, reported[:3], nil)
	d.join(42, b)
	d.run()
	d.join(41, a)
	d.run()
	if n := len(a.Port(1).MACs.Entries()); n != 3+3+1 {
		t.Errorf("%d rows, want the 3 that b has told", n)
	}
	// A host that is there under another LID is not there under the old one.
	plan := threeHosts()
	plan.Hosts[1].LID = 7
	plan.Hosts = append(plan.Hosts, PlanHost{"new", 2})
	plan.Switches[0].Ports = append(plan.Switches[0].Ports, PlanPort{Host: "new"})
	d.restarted(plan)
	d.join(32, b)
	d.join(31, a)
	d.run()
	lids := a.LIDs()
	if len(lids) != 2 || lids[0].LID != 3 || lids[1].LID != 7 {
		t.Errorf("a reaches %+v", lids)
	}
}

// TestPages: a list that comes in pages is known with the last, whole; answers that are none to the
// question add nothing.
func TestPages(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	list := func(n int) (all []MAC) {
		for i := range n {
			all = append(all, 0x00DD00000000+MAC(i))
		}
		return all
	}
	b.SetMACs(d.now, 1, list(400), nil)
	d.run()
	d.each = func() {
		if n := len(a.Port(1).MACs.Entries()); n != 3+400 && n != 3+399 {
			t.Fatalf("half a list: %d rows", n)
		}
	}
	b.SetMACs(d.now, 1, list(399), nil)
	d.run()
	if n := len(a.Port(1).MACs.Entries()); n != 3+399 {
		t.Fatalf("%d rows", n)
	}
	d.each = nil
	// One that answers the same page for ever.
	again := MACList{Start: 333, Num: 1, Total: 400, MACs: []MAC{0x00DD00000000}}
	d.hold = func(conn int, m *Message) bool {
		if m.Method != MethodResponse || m.Attr != AttrUnicastMACs || conn != 2 {
			return false
		}
		if l, _ := ParseMACList(m.Data); l.Start == 0 {
			return false
		}
		wrong := *m
		wrong.Data = again.Append(nil)
		d.manager.Receive(d.now, conn, wrong.Append(nil))
		return true
	}
	b.SetMACs(d.now, 1, list(398), nil)
	d.run()
	again.Start = 1
	d.now = d.now.Add(2 * trapWindow)
	b.SetMACs(d.now, 1, list(397), nil)
	d.run()
	if n := len(d.manager.hosts["b"].reportOf(1).macs); n > 400 || d.manager.Stats.Malformed == 0 {
		t.Errorf("%d addresses, %+v", n, d.manager.Stats)
	}
}

// TestCrowding: a host that reports more than a table holds leaves the others their places.
func TestCrowding(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	c := d.join(3, testAgent("c", nil))
	d.run()
	many := make([]MAC, 4096)
	for i := range many {
		many[i] = 0x000000000100 + MAC(i)
	}
	b.SetMACs(d.now, 1, many, nil)
	c.SetMACs(d.now, 1, []MAC{0x00FF00000001, 0x00FF00000002}, nil)
	d.run()
	rows := a.Port(1).MACs.Entries()
	at, ok := a.Port(1).MACs.Lookup(0x00FF00000002)
	if len(rows) != MACEntriesMax || !ok || at != 3 {
		t.Errorf("%d rows; an address of c is at %d, %v", len(rows), at, ok)
	}
	d.restarted(threeHosts()) // the same rows have the same digest, wherever they are known from
	was := a.Port(1).Tables
	d.join(11, a)
	d.run()
	if a.Port(1).Tables != was {
		t.Error("a restart has touched a full table")
	}
}

// TestRemovedHost: a host that the file has no more loses its ports; one that has another LID gets
// them again under it.
func TestRemovedHost(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	plan := threeHosts()
	plan.Hosts = plan.Hosts[1:]
	plan.Hosts[0].LID = 8
	for i := range plan.Switches {
		plan.Switches[i].Ports = plan.Switches[i].Ports[1:]
	}
	d.plan(plan)
	d.run()
	for _, one := range []*Agent{a, b} {
		if p := one.Port(1); p.Tables != nil || len(one.LIDs()) != 0 {
			t.Errorf("host %s: %+v, reaches %+v", one.cfg.Host, p, one.LIDs())
		}
	}
	failed := d.manager.Failed()
	slices.Sort(failed)
	if !slices.Equal(failed, []int{1, 2}) {
		t.Fatalf("connections %v are ended", failed)
	}
	for _, conn := range failed {
		d.agents[conn].Disconnect(conn)
		d.manager.Disconnect(conn)
		delete(d.agents, conn)
	}
	d.join(11, a)
	d.join(12, b)
	d.run()
	if a.Refused() != StatusInvalid || b.Refused() != StatusOK {
		t.Errorf("refused: a %#x, b %#x", a.Refused(), b.Refused())
	}
	if !d.synced("b") || b.LID() != 8 || b.Port(1).Tables == nil {
		t.Errorf("b: LID %d, %+v", b.LID(), b.Port(1))
	}
}

// TestClaimedNames: a host that comes with the names of another that is there is refused.
func TestClaimedNames(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	thief := testAgent("c", nil)
	thief.cfg.Ways = testAgent("b", nil).cfg.Ways
	d.join(3, thief)
	d.run()
	if thief.Refused() != StatusBusy || len(a.LIDs()) != 1 || a.LIDs()[0].LID != 2 {
		t.Errorf("status %#x; a reaches %+v", thief.Refused(), a.LIDs())
	}
	b.Disconnect(2)
	thief.Disconnect(3)
	d.manager.Disconnect(2)
	delete(d.agents, 2)
	delete(d.agents, 3)
	d.join(4, thief)
	d.run()
	if thief.Refused() != StatusOK || len(a.LIDs()) != 1 || a.LIDs()[0].LID != 3 {
		t.Errorf("the host at b's place: status %#x; a reaches %+v", thief.Refused(), a.LIDs())
	}
	nowhere := testAgent("b", nil)
	nowhere.cfg.Ways.Receive = nil
	d.join(5, nowhere)
	d.run()
	if nowhere.Refused() != StatusInvalid {
		t.Error("a host that nobody can reach is accepted")
	}
}

// TestProblems: what is wrong with a host is told while it is.
func TestProblems(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	refuse := true
	d.hold = func(conn int, m *Message) bool {
		if m.Method == MethodResponse && m.Attr == AttrOptions && refuse {
			no := m.Response(StatusInvalid, nil)
			d.manager.Receive(d.now, conn, no.Append(nil))
			return true
		}
		return false
	}
	plan := threeHosts()
	plan.Switches[0].Options.Flood = true
	d.plan(plan)
	d.run()
	h := d.manager.hosts["a"]
	if h.Problem == "" {
		t.Fatal("a refused attribute is no problem")
	}
	refuse = false
	d.plan(threeHosts())
	d.run()
	if h.Problem != "" {
		t.Errorf("it is still a problem: %s", h.Problem)
	}
	// Another manager has the lease, and then has it no more.
	a.Connect(9)
	a.Disconnect(1)
	d.manager.Disconnect(1)
	delete(d.agents, 1)
	taken := Lease{Manager: "lab", Instance: 5, Ms: 4000, LID: 1}
	d.now = d.now.Add(6 * time.Second)
	m := Message{Method: MethodSet, Attr: AttrLease, Data: taken.Append(nil)}
	a.Receive(d.now, 9, m.Append(nil))
	a.Outbox()
	d.join(3, a)
	d.run()
	if h.Problem == "" {
		t.Fatal("another's lease is no problem")
	}
	d.now = d.now.Add(5 * time.Second)
	d.run()
	if h.Problem != "" || !h.Synced {
		t.Errorf("with the lease: %+v", h)
	}
}

// TestOwnDefault: a default port is none for itself.
func TestOwnDefault(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, c := d.join(1, testAgent("a", nil)), d.join(3, testAgent("c", nil))
	d.run()
	if a.Port(1).Info.DefPortMask != 1 || c.Port(1).Info.DefPortMask != 0 {
		t.Errorf("masks: a %#x, c %#x", a.Port(1).Info.DefPortMask, c.Port(1).Info.DefPortMask)
	}
}

// TestAddressesKept: the known addresses of a host stay until the manager tells others, or gives
// them to another host. A table with a host several times does not grow with each table.
func TestAddressesKept(t *testing.T) {
	entry := func(lid uint32, name string) LIDEntry {
		n := []byte(name)
		return LIDEntry{LID: lid, Ways: Ways{Receive: [][]byte{n}, Send: [][]byte{n}, Module: n}}
	}
	old := []LIDEntry{entry(1, "a"), entry(2, "b"), entry(3, "c")}
	kept := keepLIDs([]LIDEntry{{LID: 1}, entry(2, "new"), {LID: 3}, entry(4, "c"), {LID: 5}}, old)
	var got []string
	for _, e := range kept {
		got = append(got, fmt.Sprintf("%d %s", e.LID, e.Ways.Module))
	}
	if want := "[1 a 2 new 4 c]"; fmt.Sprint(got) != want {
		t.Errorf("the addresses are %v, want %s", got, want)
	}
	twice := []LIDEntry{{LID: 1}, {LID: 1}}
	for range 5 {
		kept = keepLIDs(twice, kept)
	}
	if len(kept) > len(twice) {
		t.Errorf("a table of %d hosts has become one of %d", len(twice), len(kept))
	}
}
