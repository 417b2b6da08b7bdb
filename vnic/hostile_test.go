package vnic

import (
	"fmt"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// A host that reports another address again and again, with a trap each time, does not have the
// manager change the tables of the others each time.
func TestTrapFlood(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, _ := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	tables := 0
	d.hold = func(conn int, m *Message) bool {
		if conn == 2 && m.Method == MethodSet && m.Attr == AttrMACEntries {
			tables++
		}
		return false
	}
	const floods = 200
	for i := range floods {
		a.traps = 0 // it does not count its own
		a.SetMACs(d.now, 1, []MAC{MAC(i+1) << 8}, nil)
		d.run()
	}
	if tables == 0 || tables > trapsHeard {
		t.Errorf("%d reports have changed the table of another host %d times, want 1 to %d", floods,
			tables, trapsHeard)
	}
	if d.manager.Stats.TrapsIgnored != floods-trapsHeard || len(d.manager.Traps()) > trapsHeard {
		t.Errorf("%+v; %d traps are shown", d.manager.Stats, len(d.manager.Traps()))
	}
	// The latest report is learned all the same, by a renewal of the lease.
	for range 4 {
		d.now = d.now.Add(leaseDefault / 3)
		d.run()
	}
	if at, ok := d.agents[2].Port(1).MACs.Lookup(MAC(floods) << 8); !ok || at != 1 {
		t.Error("the latest address of the host is not known to the others")
	}
}

// liar registers host a, which claims to have all ports, on connection conn. The returned function
// answers the manager's requests as lieAbout does, and returns their number.
func liar(t *testing.T, d *desk, conn int) (answer func() (asked int)) {
	t.Helper()
	return liarWith(t, d, conn, lieAbout)
}

// liarWith is liar with answers that the function "lie" makes.
func liarWith(
	t *testing.T, d *desk, conn int, lie func(*testing.T, *Message) []byte,
) (answer func() (asked int)) {
	t.Helper()
	r := Registration{Host: "a", Manager: "lab", Instance: 1, Ways: testAgent("a", nil).cfg.Ways}
	for i := range r.Ports {
		r.Ports[i] = 0xFF
	}
	msg := Message{Method: MethodSet, Attr: AttrRegister, Data: r.Append(nil)}
	d.manager.Receive(d.now, conn, msg.Append(nil))
	return func() (asked int) {
		t.Helper()
		for before := -1; before != asked; {
			before = asked
			d.manager.Progress(d.now)
			for _, o := range d.manager.Outbox() {
				m, err := ParseMessage(o.Data)
				if err != nil {
					t.Fatal(err)
				}
				if m.Method == MethodResponse {
					continue
				}
				asked++
				answer := m.Response(StatusOK, lie(t, &m))
				d.manager.Receive(d.now, conn, answer.Append(nil))
			}
			if asked > 1e5 {
				t.Fatal("questions without end")
			}
		}
		return asked
	}
}

// holdsPlanned checks that the manager keeps addresses of planned ports of host a, and no others.
func (d *desk) holdsPlanned() {
	d.t.Helper()
	held, ports := 0, 0
	for n, rep := range d.manager.hosts["a"].unicast {
		if held += len(rep.macs); len(rep.macs) > 0 {
			ports++
		}
		if len(rep.macs) > 0 && !d.manager.plan.hasPort("a", n) {
			d.t.Errorf("port %d has %d addresses", n, len(rep.macs))
		}
	}
	if held == 0 || held > 2*(listMax+MACsPerMsg) {
		d.t.Errorf("%d addresses of %d ports are kept", held, ports)
	}
}

// A host that claims to have all ports, each with as many addresses as can be told, costs no more
// than the ports that it shall have.
func TestReportsOfPortsNotPlanned(t *testing.T) {
	d := newDesk(t, threeHosts())
	liar(t, d, 1)()
	d.holdsPlanned()
}

// TestShortPages: a host that tells one address or one table row in each message does not have the
// manager ask for all of them in thousands of messages.
func TestShortPages(t *testing.T) {
	const askedMost = 10
	d := newDesk(t, threeHosts())
	asked := 0
	liarWith(t, d, 1, func(t *testing.T, m *Message) []byte {
		if m.Method != MethodGet || m.Attr != AttrUnicastMACs {
			info := PowerOn()
			info.UniGen = 1
			return info.Append(nil)
		}
		asked++
		ask, err := ParseMACList(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		l := MACList{
			Start: ask.Start, Num: 1, Total: listMax, Generation: 1, MACs: []MAC{MAC(ask.Start+1) << 8},
		}
		return l.Append(nil)
	})()
	if asked == 0 || asked > askedMost {
		t.Errorf("%d requests for the addresses of two ports", asked)
	}
	if rows := tellTable(t, crowdedLab(t), 100, MACEntriesMax, 1); rows != 1 {
		t.Errorf("the manager has asked for %d rows, each in a message", rows)
	}
}

// TestTrapsOfPortsNotPlanned: neither does a host that sends traps of ports that it shall not have.
func TestTrapsOfPortsNotPlanned(t *testing.T) {
	d := newDesk(t, threeHosts())
	answer := liar(t, d, 1)
	answer()
	for vport := 1; vport <= VportMax; {
		for i := 0; i < trapsHeard && vport <= VportMax; i++ {
			trap := Trap{VESW: 5, Port: 1, OPAPort: 1, Index: uint8(vport), Opcode: TrapUnicast}
			m := Message{
				Method: MethodTrap, Attr: AttrVportInfo, TID: uint64(vport), Modifier: uint32(vport),
				Data: trap.Append(nil),
			}
			d.manager.Receive(d.now, 1, m.Append(nil))
			vport++
		}
		answer()
		d.now = d.now.Add(trapWindow)
	}
	if s := d.manager.Stats; s.Traps != VportMax || s.TrapsIgnored != 0 || s.Malformed != 0 {
		t.Errorf("%+v", s)
	}
	d.holdsPlanned()
}

// TestReportsOfRemovedPort: the addresses of a port that the plan has no more are not kept, nor
// those that are still under way then.
func TestReportsOfRemovedPort(t *testing.T) {
	d := newDesk(t, threeHosts())
	answer := liar(t, d, 1)
	answer()
	planned := len(d.manager.hosts["a"].unicast)
	s := d.manager.byHost["a"]
	vport := d.manager.plan.Switches[1].Ports[0].Vport
	plan := threeHosts()
	plan.Switches[1].Ports = plan.Switches[1].Ports[1:]
	d.plan(plan)
	asked := (&MACList{}).Append(nil)
	said := MACList{Num: MACsPerMsg, Total: 4096, Generation: 1, MACs: make([]MAC, MACsPerMsg)}
	if !d.manager.toldAddresses(s, vport, asked, said.Append(nil)) || len(s.pages) != 0 {
		t.Errorf("%d lists of addresses are begun", len(s.pages))
	}
	if n := len(d.manager.hosts["a"].unicast); n >= planned {
		t.Errorf("%d reports are kept, before %d", n, planned)
	}
	answer()
	d.holdsPlanned()
}

// An answer about another port than was asked for changes nothing.
func TestAnswerOfAnotherPort(t *testing.T) {
	d := newDesk(t, threeHosts())
	r := Registration{Host: "a", Manager: "lab", Instance: 1, Ways: testAgent("a", nil).cfg.Ways}
	r.Ports[0] = 1 << 1
	msg := Message{Method: MethodSet, Attr: AttrRegister, Data: r.Append(nil)}
	d.manager.Receive(d.now, 1, msg.Append(nil))
	answered := false
	for range 4 {
		d.manager.Progress(d.now)
		for _, o := range d.manager.Outbox() {
			m, err := ParseMessage(o.Data)
			if err != nil {
				t.Fatal(err)
			}
			if m.Method == MethodResponse {
				continue
			}
			answer := m.Response(StatusOK, lieAbout(t, &m))
			if m.Method == MethodGet {
				answer.Modifier, answered = 200, true
			}
			d.manager.Receive(d.now, 1, answer.Append(nil))
		}
	}
	s := d.manager.byHost["a"]
	if _, has := s.host.Links[200]; !answered || has || s.vesw[200] != 0 || s.pending == nil ||
		d.manager.Stats.Malformed != 1 {
		t.Errorf("answered %v; port 200: link %v, switch %d; %+v", answered, has, s.vesw[200],
			d.manager.Stats)
	}
}

// lieAbout is the data of an answer that claims as much as it can.
func lieAbout(t *testing.T, m *Message) []byte {
	t.Helper()
	switch {
	case m.Method == MethodGet && m.Attr == AttrVportInfo:
		i := PowerOn()
		i.VESW, i.UniGen = 9, 1
		return i.Append(nil)
	case m.Method == MethodGet && m.Attr == AttrUnicastMACs:
		ask, err := ParseMACList(m.Data)
		if err != nil {
			t.Fatal(err)
		}
		l := MACList{Start: ask.Start, Num: MACsPerMsg, Total: 65535, Generation: 1}
		for i := range MACsPerMsg {
			l.MACs = append(l.MACs, MAC(m.Vport())<<24|MAC(ask.Start)+MAC(i)+1)
		}
		return l.Append(nil)
	}
	return nil
}

// The cost of a train hardly depends on how many others of its peer wait behind gaps.
func TestOrderCost(t *testing.T) {
	cost := func(waiting, flows int) time.Duration {
		o := NewOrder(time.Second)
		o.max = waiting * (orderTrainBytes + 8)
		seq := uint32(0)
		take := func() {
			seq++
			tr := Train{Seq: 2*(seq/uint32(flows)) + 1, Entropy: uint16(seq % uint32(flows))}
			o.Take(1, tr, []byte{1}, func([]byte) {})
			o.Expire(1, func([]byte) {})
		}
		for range 2 * waiting {
			take()
		}
		if o.held < waiting/2 {
			t.Fatalf("%d of %d wait", o.held, waiting)
		}
		least := time.Hour
		for range 20 { // the machine may do something else
			begin := time.Now()
			for range 200 {
				take()
			}
			least = min(least, time.Since(begin))
		}
		return least
	}
	for name, flows := range map[string]int{"one flow": 1, "many flows": 1024} {
		few, many := cost(max(64, flows), min(flows, 64)), cost(4000, flows)
		if many > 12*few {
			t.Errorf("%s: with 4000 trains waiting 200 more cost %v, with few %v", name, many, few)
		}
	}
}

// The list of gaps is bounded however often gaps come and go.
func TestOrderGaps(t *testing.T) {
	o := NewOrder(time.Second)
	out := 0
	count := func([]byte) { out++ }
	const rounds = 3 * gapsMax
	for i := range uint32(rounds) {
		o.Take(1, Train{Seq: 2*i + 1}, []byte{1}, count)
		o.Take(1, Train{Seq: 2 * i}, []byte{1}, count)
		if len(o.gaps) > gapsMax {
			t.Fatalf("%d gaps", len(o.gaps))
		}
	}
	if out != 2*rounds || o.Deadline() != mono.Never || o.held != 0 || o.bytes != 0 {
		t.Errorf("%d of %d are out; held %d", out, 2*rounds, o.held)
	}
}

// Plans that change often, and other hosts, use up nothing of that bound.
func TestManyPlans(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	for i := range 2 * comparedMax {
		p := threeHosts()
		p.Switches[0].MTU = MTUMin + uint16(i)
		d.plan(p)
		if d.run(); a.Port(1).Info.EthMTU != MTUMin+uint16(i) || !d.synced("a") {
			t.Fatalf("plan %d is not followed: MTU %d", i, a.Port(1).Info.EthMTU)
		}
	}
}

// So do other hosts that come and go.
func TestManyNeighbours(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	for i := range 2 * comparedMax {
		d.manager.hosts["b"].changes = 0 // its own share is no subject of this test
		conn, b := 2+i, testAgent("b", nil)
		b.cfg.Ways.Module = []byte(fmt.Sprint("m", i))
		d.join(conn, b)
		d.run()
		if lids := a.LIDs(); len(lids) != 1 || string(lids[0].Ways.Module) != fmt.Sprint("m", i) {
			t.Fatalf("neighbour %d is not known: %+v", i, lids)
		}
		delete(d.agents, conn)
		d.manager.Disconnect(conn)
	}
}

// A pass in which no host has anything to do makes no list of the hosts: strangers can cause many
// passes.
func TestPassWithoutWork(t *testing.T) {
	d := newDesk(t, threeHosts())
	for conn, host := range []string{"c", "a", "b"} {
		d.join(3-conn, testAgent(host, nil))
	}
	d.run()
	if n := testing.AllocsPerRun(100, func() { d.manager.Progress(d.now) }); n > 0 {
		t.Errorf("%v allocations", n)
	}
	d.manager.Disconnect(2)
	if got := fmt.Sprint(d.manager.conns); got != "[1 3]" || len(d.manager.sessions) != 2 {
		t.Errorf("connections %s, %d sessions", got, len(d.manager.sessions))
	}
}
