package vnic

import (
	"fmt"
	"testing"
	"time"
)

// crowdedLab is a switch with hosts h1 to h10, of which only h3 is connected.
func crowdedLab(t *testing.T) *desk {
	t.Helper()
	plan := &Plan{Switches: []PlanSwitch{{Name: "blue", ID: 5, Reported: true}}}
	for i := range uint32(10) {
		name := fmt.Sprint("h", i+1)
		plan.Hosts = append(plan.Hosts, PlanHost{name, i + 1})
		plan.Switches[0].Ports = append(plan.Switches[0].Ports, PlanPort{Host: name})
	}
	d := newDesk(t, plan)
	d.join(3, testAgent("h3", nil))
	d.run()
	return d
}

// tellTable registers host h1 on connection conn, and answers the manager's requests for its MAC
// table with rows of the hosts h4 to h10, which are absent. On each connection, the table has other
// addresses. A message has at most "page" rows.
func tellTable(t *testing.T, d *desk, conn, size, page int) (rows int) {
	t.Helper()
	r := Registration{Host: "h1", Manager: "lab", Instance: 1, Ways: testAgent("h1", nil).cfg.Ways}
	r.Ports[0] = 1 << 1
	msg := Message{Method: MethodSet, Attr: AttrRegister, Data: r.Append(nil)}
	d.manager.Receive(d.now, conn, msg.Append(nil))
	for idle := 0; idle < 2; {
		idle++
		d.manager.Progress(d.now)
		for _, o := range d.manager.Outbox() {
			if d.agents[o.Conn] != nil {
				d.pass(o.Conn, o.Data, true)
				continue
			}
			m, err := ParseMessage(o.Data)
			if err != nil {
				t.Fatal(err)
			}
			if m.Method == MethodResponse {
				continue
			}
			idle = 0
			var data []byte
			switch {
			case m.Method == MethodGet && m.Attr == AttrVportInfo:
				i := PowerOn()
				i.VESW, i.MACDigest = 5, 77
				data = i.Append(nil)
			case m.Method == MethodGet && m.Attr == AttrMACEntries:
				ask, _ := ParseMACEntries(m.Data)
				a := MACEntries{Offset: ask.Offset}
				for i := range min(int(ask.Num), size-int(ask.Offset), page) {
					n := int(ask.Offset) + i
					mac := MAC(conn)<<24 | MAC(n+1)
					a.Rows = append(a.Rows, MACEntry{MAC: mac, DLID: uint32(4 + n%7)})
				}
				a.Num = uint16(len(a.Rows))
				rows += len(a.Rows)
				data = a.Append(nil)
			}
			answer := m.Response(StatusOK, data)
			d.manager.Receive(d.now, conn, answer.Append(nil))
		}
		for _, o := range d.agents[3].Outbox() {
			d.pass(3, o.Data, false)
		}
	}
	return rows
}

// TestRowsOfAbsentHosts: after a restart of the manager, a host that tells of addresses of absent
// hosts without end gets no more of the MAC table than its own share. It takes a bounded amount of
// memory, and has the tables made as seldom as other hosts.
func TestRowsOfAbsentHosts(t *testing.T) {
	for _, size := range []int{MACEntriesMax, 50} {
		testRowsOfAbsentHosts(t, size)
	}
}

func testRowsOfAbsentHosts(t *testing.T, size int) {
	d := crowdedLab(t)
	const rounds = 20
	told, made := 0, d.manager.Stats.TablesMade
	for i := range rounds {
		told += tellTable(t, d, 100+i, size, MACEntriesPerMsg)
		d.manager.Disconnect(100 + i)
	}
	made = d.manager.Stats.TablesMade - made
	if told != rounds*size {
		t.Fatalf("the host has told %d rows", told)
	}
	if made == 0 || made > 2+changesMax {
		t.Errorf("the tables of the switch were made %d times at once", made)
	}
	kept := 0
	for _, h := range d.manager.hosts {
		kept += len(h.reportOf(1).macs)
	}
	if kept == 0 || kept > MACEntriesMax {
		t.Errorf("%d rows are kept", kept)
	}
	honest := make([]MAC, 900)
	for i := range honest {
		honest[i] = 0x00DD00000000 + MAC(i)
	}
	d.agents[3].SetMACs(d.now, 1, honest, nil)
	d.run()
	d.now = d.now.Add(2 * time.Second)
	d.run()
	has := 0
	for _, mac := range honest {
		if at := d.manager.tablesOf(0).has[mac]; at == 3 {
			has++
		}
	}
	if has != len(honest) {
		t.Errorf("%d of %d addresses of another host are in the table", has, len(honest))
	}
}

// TestPortOfRow: the port to which a row points is found without a look at the other ports of the
// plan. The names of the other hosts, which are changed here, have no effect.
func TestPortOfRow(t *testing.T) {
	plan := &Plan{Switches: []PlanSwitch{{Name: "red", ID: 4}, {Name: "blue", ID: 5}}}
	for i := range uint32(10) {
		name := fmt.Sprint("h", i+1)
		plan.Hosts = append(plan.Hosts, PlanHost{name, i + 1})
		for j := range plan.Switches {
			plan.Switches[j].Ports = append(plan.Switches[j].Ports, PlanPort{Host: name})
		}
	}
	if err := plan.Complete(); err != nil {
		t.Fatal(err)
	}
	ports := plan.Switches[1].Ports
	for i := range ports {
		ports[i].Host = "h10"
	}
	if p := plan.portOf(5, 10); p != &ports[9] {
		t.Errorf("the port is %+v", p)
	}
	if plan.portOf(5, 11) != nil || plan.portOf(6, 10) != nil {
		t.Error("a port that the plan does not have is found")
	}
}
