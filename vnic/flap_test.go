package vnic

import (
	"fmt"
	"testing"
)

// flapLab is a switch with ten hosts that are all connected. The returned function counts the
// tables of an attribute that host h2 has got since the call before.
func flapLab(t *testing.T, attr Attribute) (d *desk, tables func() int) {
	t.Helper()
	plan := &Plan{Switches: []PlanSwitch{{Name: "blue", ID: 5, Reported: true}}}
	for i := range uint32(10) {
		name := fmt.Sprint("h", i+1)
		plan.Hosts = append(plan.Hosts, PlanHost{name, i + 1})
		plan.Switches[0].Ports = append(plan.Switches[0].Ports, PlanPort{Host: name})
	}
	d = newDesk(t, plan)
	for i := range plan.Hosts {
		d.join(i+1, testAgent(fmt.Sprint("h", i+1), nil))
	}
	d.run()
	count := 0
	d.hold = func(conn int, m *Message) bool {
		if conn == 2 && m.Method == MethodSet && m.Attr == attr && m.Modifier&ModMore == 0 {
			count++
		}
		return false
	}
	return d, func() int { n := count; count = 0; return n }
}

// TestFlap: a host whose device changes one of its addresses all the time costs the manager a few
// tables in each window, made once for all hosts. The latest report is everywhere after a window.
func TestFlap(t *testing.T) {
	d, tables := flapLab(t, AttrMACEntries)
	bad := d.agents[1]
	macs := make([]MAC, 300)
	for i := range macs {
		macs[i] = MAC(i+1) << 8
	}
	flap := func(i int) {
		macs[0] = MAC(i+1) << 32
		bad.traps = 0 // it does not count its own
		bad.SetMACs(d.now, 1, macs, nil)
		d.run()
	}
	flap(0)
	tables()
	d.now = d.now.Add(trapWindow)
	made := d.manager.Stats.TablesMade
	for i := range trapsHeard {
		flap(i + 1)
	}
	made = d.manager.Stats.TablesMade - made
	if n := tables(); n != changesMax || made != changesMax {
		t.Errorf("%d reports have changed the table of another host %d times, and tables were made %d "+
			"times, want %d", trapsHeard, n, made, changesMax)
	}
	d.now = d.now.Add(trapWindow)
	d.run()
	if at, ok := d.agents[2].Port(1).MACs.Lookup(MAC(trapsHeard+1) << 32); !ok || at != 1 {
		t.Error("the latest address of the host is not known to the others")
	}
	if n := tables(); n != 1 {
		t.Errorf("what has waited has changed the table of another host %d times", n)
	}
}

// TestFlapWithoutTraps: a host that sends no traps, and answers each Get with another generation
// and another address, has the same share.
func TestFlapWithoutTraps(t *testing.T) {
	d, tables := flapLab(t, AttrMACEntries)
	port, answers := d.agents[1].Port(1), 0
	d.each = func() {
		answers++
		port.Unicast = []MAC{MAC(answers) << 8}
		port.Info.UniGen = max(port.Info.UniGen+1, 1)
	}
	traps := d.manager.Stats.Traps
	for range 3 {
		d.now = d.now.Add(max(leaseDefault/3, trapWindow)) // the manager renews the lease, and asks
		d.run()
		if n := tables(); n != changesMax {
			t.Errorf("%d answers have changed the table of another host %d times in a window, want %d",
				answers, n, changesMax)
		}
	}
	if n := d.manager.Stats.Traps - traps; n != 0 {
		t.Errorf("%d traps", n)
	}
}

// TestFlapOfOthers: the changes of another host do not wait for those of a host that changes all
// the time.
func TestFlapOfOthers(t *testing.T) {
	d, _ := flapLab(t, AttrMACEntries)
	for i := range 2 * changesMax {
		d.agents[1].traps = 0
		d.agents[1].SetMACs(d.now, 1, []MAC{MAC(i+1) << 32}, nil)
		d.run()
	}
	d.agents[3].SetMACs(d.now, 1, []MAC{0x00EE00000000}, nil)
	d.run()
	if at, ok := d.agents[2].Port(1).MACs.Lookup(0x00EE00000000); !ok || at != 3 {
		t.Error("the address of a host that reports once is not known to the others")
	}
}

// TestFlapOfNames: neither does a host that registers again and again, with other endpoint names
// each time, have the manager tell all hosts each time.
func TestFlapOfNames(t *testing.T) {
	d, tables := flapLab(t, AttrLIDs)
	const flaps = 40
	conn := 1
	for i := range flaps {
		d.agents[conn].Disconnect(conn)
		d.manager.Disconnect(conn)
		delete(d.agents, conn)
		conn = 100 + i
		a := testAgent("h1", nil)
		a.cfg.Ways.Module = []byte(fmt.Sprint("m", i))
		d.join(conn, a)
		d.run()
	}
	if n := tables(); n != changesMax {
		t.Errorf("%d registrations have changed the names at another host %d times, want %d", flaps, n,
			changesMax)
	}
	d.now = d.now.Add(trapWindow)
	d.run()
	if lids := d.agents[2].LIDs(); len(lids) != 9 ||
		string(lids[0].Ways.Module) != fmt.Sprint("m", flaps-1) {
		t.Errorf("the latest names of the host are not known to the others: %+v", lids)
	}
}
