package vnic

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/internal/mono"
)

// desk is a manager and agents whose messages pass from hand to hand.
type desk struct {
	t        *testing.T
	now      mono.Time
	manager  *Manager
	agents   map[int]*Agent // by connection
	changes  int
	messages int
	// hold, if it returns true, keeps a message back for ever.
	hold func(conn int, m *Message) bool
	each func() // after every message
}

func newDesk(t *testing.T, plan *Plan) *desk {
	t.Helper()
	d := &desk{t: t, now: mono.Time(time.Hour), agents: make(map[int]*Agent)}
	d.manager = NewManager(ManagerConfig{Name: "lab", Instance: 77})
	d.plan(plan)
	return d
}

func (d *desk) plan(p *Plan) {
	d.t.Helper()
	if err := p.Complete(); err != nil {
		d.t.Fatal(err)
	}
	d.manager.SetPlan(p)
}

func testAgent(host string, counts func(uint8) Counts) *Agent {
	return NewAgent(AgentConfig{
		Host: host, Manager: "lab", Instance: 5, Counts: counts,
		Ways: Ways{
			Receive: [][]byte{[]byte("rx-" + host)}, Send: [][]byte{[]byte("tx-" + host)},
			Module: []byte("m-" + host),
		},
	})
}

func (d *desk) join(conn int, a *Agent) *Agent {
	d.agents[conn] = a
	a.Connect(conn)
	return a
}

// run passes messages until nobody has any.
func (d *desk) run() {
	d.t.Helper()
	for quiet := 0; quiet < 2; {
		quiet++
		d.manager.Progress(d.now)
		for _, o := range d.manager.Outbox() {
			quiet = 0
			d.pass(o.Conn, o.Data, true)
		}
		for conn, a := range d.agents {
			for _, o := range a.Outbox() {
				if o.Conn == conn {
					quiet = 0
					d.pass(conn, o.Data, false)
				}
			}
			d.changes += len(a.Changes())
		}
		if d.messages > 1e6 {
			d.t.Fatal("messages without end")
		}
	}
}

func (d *desk) pass(conn int, b []byte, down bool) {
	d.messages++
	if m, err := ParseMessage(b); err != nil {
		d.t.Fatalf("%x: %v", b, err)
	} else if d.hold != nil && d.hold(conn, &m) {
		return
	}
	if a := d.agents[conn]; !down {
		d.manager.Receive(d.now, conn, b)
	} else if a != nil {
		a.Receive(d.now, conn, b)
	}
	if d.each != nil {
		d.each()
	}
}

func (d *desk) synced(host string) bool {
	for _, h := range d.manager.Hosts() {
		if h.Name == host {
			return h.Synced
		}
	}
	return false
}

// threeHosts is a switch "blue" (5) with ports on a, b, c, and "red" (261) on a and b.
func threeHosts() *Plan {
	return &Plan{
		Hosts: []PlanHost{{"a", 1}, {"b", 2}, {"c", 3}},
		Switches: []PlanSwitch{
			{
				Name: "blue", ID: 5, Reported: true, Default: []string{"c"},
				Ports: []PlanPort{{Host: "a"}, {Host: "b"}, {Host: "c"}},
			},
			{Name: "red", ID: 261, Ports: []PlanPort{{Host: "a"}, {Host: "b"}}},
		},
	}
}

func TestManagement(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	if !d.synced("a") || !d.synced("b") || d.synced("c") {
		t.Fatalf("%+v", d.manager.Hosts())
	}
	p := a.Port(1)
	if p == nil || p.Tables == nil || p.Info.VESW != 5 || p.Info.DefPortMask != 1 ||
		p.Info.UcastDLID[0] != 3 || !slices.Equal(p.Members, []uint32{1, 2, 3}) {
		t.Fatalf("%+v", p)
	}
	if dlid, ok := p.MACs.Lookup(MACFor(5, 2)); !ok || dlid != 2 {
		t.Errorf("b's address is at %d", dlid)
	}
	if a.Port(2).Info.VESW != 261 || b.Port(2).Info.VESW != 261 {
		t.Error("the second switch is not there")
	}
	if len(a.LIDs()) != 1 || a.LIDs()[0].LID != 2 || string(a.LIDs()[0].Ways.Module) != "m-b" {
		t.Errorf("a reaches %+v", a.LIDs())
	}
	if p.Info.OperState != StateDropAll {
		t.Error("a port whose device is down forwards")
	}
	a.SetLink(d.now, 1, true)
	d.run()
	if p.Info.OperState != StateForwarding || !p.Tables.Forwarding() {
		t.Error("a port whose device is up does not forward")
	}
	if traps := d.manager.Traps(); len(traps) != 1 || traps[0].Trap.Opcode != TrapLink ||
		!d.manager.hosts["a"].Links[1] {
		t.Errorf("traps %+v, links %v", traps, d.manager.hosts["a"].Links)
	}
	// A host that comes later is told to the others, and the tables that are right are not sent again.
	sets := 0
	d.hold = func(_ int, m *Message) bool {
		if m.Method == MethodSet && m.Attr != AttrLease && m.Attr != AttrRegister && m.Attr != AttrLIDs {
			sets++
		}
		return false
	}
	d.join(3, testAgent("c", nil))
	d.run()
	if len(a.LIDs()) != 2 || sets != 4 {
		t.Errorf("a reaches %d hosts; %d messages with tables, want 4 for c's port", len(a.LIDs()), sets)
	}
}

// TestReported: an address that a device reports is added to the others' tables.
func TestReported(t *testing.T) {
	d := newDesk(t, threeHosts())
	a, b := d.join(1, testAgent("a", nil)), d.join(2, testAgent("b", nil))
	d.run()
	many := make([]MAC, 400) // more than a message holds
	for i := range many {
		many[i] = 0x00DD00000000 + MAC(i)
	}
	b.SetMACs(d.now, 1, many, []MAC{0x01005E000001})
	d.run()
	for _, m := range []MAC{many[0], many[399]} {
		if dlid, ok := a.Port(1).MACs.Lookup(m); !ok || dlid != 2 {
			t.Errorf("%v is at %d, %v", m, dlid, ok)
		}
	}
	b.SetMACs(d.now, 1, nil, []MAC{0x01005E000001})
	d.run()
	if _, ok := a.Port(1).MACs.Lookup(many[0]); ok {
		t.Error("an address that is gone is still in the table")
	}
	if n := b.Port(1).Info.UniGen; n != 2 {
		t.Errorf("generation %d", n)
	}
}

// TestTableSwap: a table of several messages is never seen half.
func TestTableSwap(t *testing.T) {
	plan := func(lid string) *Plan {
		p := threeHosts()
		for i := range 1000 {
			p.Switches[0].MACs = append(p.Switches[0].MACs, PlanMAC{0x00EE00000000 + MAC(i), lid})
		}
		return p
	}
	d := newDesk(t, plan("b"))
	a := d.join(1, testAgent("a", nil))
	d.run()
	digest := a.Port(1).Info.MACDigest
	d.each = func() {
		first, _ := a.Port(1).MACs.Lookup(0x00EE00000000)
		for i := range MAC(1000) {
			if at, ok := a.Port(1).MACs.Lookup(0x00EE00000000 + i); !ok || at != first {
				t.Fatalf("row %d is at %d, row 0 at %d", i, at, first)
			}
		}
	}
	d.plan(plan("c"))
	d.run()
	if at, _ := a.Port(1).MACs.Lookup(0x00EE00000007); at != 3 || a.Port(1).Info.MACDigest == digest ||
		d.manager.hosts["a"].Digests[1] != a.Port(1).Info.MACDigest {
		t.Errorf("the table has not moved: at %d", at)
	}
	// The same again by hand: a Get reads what was set.
	ask := MACEntries{Offset: 125, Num: 2}
	m := Message{Method: MethodGet, Attr: AttrMACEntries, Modifier: 1, Data: ask.Append(nil)}
	a.Receive(d.now, 1, m.Append(nil))
	out := a.Outbox()
	back, err := ParseMessage(out[len(out)-1].Data)
	if err != nil || back.Status != StatusOK {
		t.Fatalf("%+v, %v", back, err)
	}
	if rows, err := ParseMACEntries(back.Data); err != nil || rows.Num != 2 ||
		rows.Rows[0].MAC != 0x00EE00000000+125 || rows.Digest != a.Port(1).Info.MACDigest {
		t.Errorf("%+v, %v", rows, err)
	}
}

// TestRestarts: after a restart of either side all is as it was, and what was right stays
// untouched.
func TestRestarts(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.join(2, testAgent("b", nil))
	d.run()
	a.SetLink(d.now, 1, true)
	d.run()
	was := a.Port(1).Tables
	for conn, agent := range d.agents {
		agent.Disconnect(conn)
	}
	b := d.agents[2]
	d.agents = make(map[int]*Agent)
	d.manager = NewManager(ManagerConfig{Name: "lab", Instance: 78})
	d.plan(threeHosts())
	d.changes = 0
	d.join(11, a)
	d.join(12, b)
	d.run()
	if d.synced("a") {
		t.Error("the lease of the manager before is worth nothing")
	}
	d.now = d.now.Add(6 * time.Second) // it has run out
	d.run()
	if !d.synced("a") || !d.synced("b") {
		t.Fatalf("%+v %+v", d.manager.hosts["a"], d.manager.hosts["b"])
	}
	if a.Port(1).Tables != was {
		t.Error("a restart of the manager has touched a port")
	}
	// The agent restarts: it gets everything again.
	d.manager.Disconnect(11)
	a = d.join(13, testAgent("a", nil))
	d.run()
	if a.Port(1) == nil || !d.synced("a") || a.Port(1).MACs.Digest != was.MACs.Digest {
		t.Error("a restarted agent is not as the plan wants it")
	}
}

// TestLease: two managers do not fight.
func TestLease(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	other := NewManager(ManagerConfig{Name: "lab", Instance: 99})
	plan := threeHosts()
	plan.Switches[0].MTU = 9000
	if err := plan.Complete(); err != nil {
		t.Fatal(err)
	}
	other.SetPlan(plan)
	a.Connect(2)
	second := func() {
		for range 50 {
			d.manager.Progress(d.now)
			for _, o := range d.manager.Outbox() {
				a.Receive(d.now, 1, o.Data)
			}
			other.Progress(d.now)
			for _, o := range other.Outbox() {
				a.Receive(d.now, 2, o.Data)
			}
			for _, o := range a.Outbox() {
				if o.Conn == 2 {
					other.Receive(d.now, 2, o.Data)
				} else {
					d.manager.Receive(d.now, 1, o.Data)
				}
			}
		}
	}
	register := a.Outbox()
	other.Receive(d.now, 2, register[len(register)-1].Data)
	for range 20 {
		second()
		d.now = d.now.Add(time.Second)
	}
	if mtu := a.Port(1).Info.EthMTU; mtu != MTUDefault {
		t.Fatalf("MTU %d: the second manager has changed something", mtu)
	}
	if h := other.Hosts()[0]; h.Synced || !strings.Contains(h.Problem, "another manager") {
		t.Errorf("the second manager believes %+v", h)
	}
	a.Disconnect(1) // the first is gone; its lease runs out
	for range 10 {
		second()
		d.now = d.now.Add(time.Second)
	}
	if mtu := a.Port(1).Info.EthMTU; mtu != 9000 {
		t.Errorf("MTU %d: the second manager was not obeyed after the lease", mtu)
	}
}

// TestTraps: at most four in a window of about 1.07 s; lists that are as they were make none.
func TestTraps(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	for i := range 10 {
		a.SetMACs(d.now, 1, []MAC{MAC(i+1) << 8}, nil)
		a.SetMACs(d.now, 1, []MAC{MAC(i+1) << 8}, nil)
	}
	if a.Stats.Traps != 4 || a.Stats.TrapsQuiet != 6 {
		t.Errorf("%d traps, %d suppressed, want 4 and 6", a.Stats.Traps, a.Stats.TrapsQuiet)
	}
	d.now = d.now.Add(trapWindow - 1)
	a.SetMACs(d.now, 1, []MAC{99 << 8}, nil)
	if a.Stats.Traps != 4 {
		t.Error("a fifth trap within the window")
	}
	d.now = d.now.Add(1)
	a.SetMACs(d.now, 1, []MAC{98 << 8}, nil)
	if a.Stats.Traps != 5 {
		t.Error("no trap in the next window")
	}
	if trapWindow < 1070*time.Millisecond || trapWindow > 1080*time.Millisecond {
		t.Errorf("window of %v", trapWindow)
	}
}

// TestPlanChanges: ports move between switches, swap, and go; the device stays.
func TestPlanChanges(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	swapped := threeHosts()
	swapped.Switches[0].Ports[0].Vport = 2
	swapped.Switches[1].Ports[0].Vport = 1
	d.plan(swapped)
	d.run()
	if !d.synced("a") || a.Port(1).Info.VESW != 261 || a.Port(2).Info.VESW != 5 ||
		d.manager.hosts["a"].Problem != "" {
		t.Fatalf("swapped: %d, %d, %q", a.Port(1).Info.VESW, a.Port(2).Info.VESW,
			d.manager.hosts["a"].Problem)
	}
	gone := threeHosts()
	gone.Switches = gone.Switches[:1]
	d.plan(gone)
	d.run()
	if p := a.Port(2); p == nil || p.Tables != nil || p.Info.VESW != 0 || p.MACs != nil {
		t.Errorf("a deleted port is %+v", p)
	}
	if a.Port(1).Info.VESW != 5 {
		t.Error("the other switch is not on port 1")
	}
}

// TestRefusals: what a manager must not do, and what is no request at all.
func TestRefusals(t *testing.T) {
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	d.run()
	a.Connect(9)
	a.Outbox()
	tables, lids := a.Port(1).Tables, len(a.LIDs())
	good := a.Port(1).Info
	with := func(change func(*VportInfo)) []byte {
		i := good
		change(&i)
		return i.Append(nil)
	}
	for _, c := range []struct {
		name   string
		conn   int
		m      Message
		status Status
	}{
		{"unknown attribute", 1, Message{Method: MethodGet, Attr: 0x33}, StatusUnsupported},
		{"set of a counter", 1, Message{Method: MethodSet, Attr: AttrSummary}, StatusUnsupported},
		{"get of a delete", 1, Message{Method: MethodGet, Attr: AttrDeleteVESW}, StatusUnsupported},
		{"trap to an agent", 1, Message{Method: MethodTrap, Attr: AttrVportInfo}, StatusMethod},
		{"no lease", 9, Message{Method: MethodSet, Attr: AttrDeleteVESW, Modifier: 1}, StatusBusy},
		{
			"port 0", 1,
			Message{Method: MethodSet, Attr: AttrVportInfo, Data: with(func(*VportInfo) {})},
			StatusInvalid,
		},
		{"switch 0", 1, Message{
			Method: MethodSet, Attr: AttrVportInfo, Modifier: 1,
			Data: with(func(i *VportInfo) { i.VESW = 0 }),
		}, StatusInvalid},
		{"switch 4096", 1, Message{
			Method: MethodSet, Attr: AttrVportInfo, Modifier: 1,
			Data: with(func(i *VportInfo) { i.VESW = 4096 }),
		}, StatusInvalid},
		{"another's LID", 1, Message{
			Method: MethodSet, Attr: AttrVportInfo, Modifier: 1,
			Data: with(func(i *VportInfo) { i.EncapSLID = 2 }),
		}, StatusInvalid},
		{"a switch twice", 1, Message{
			Method: MethodSet, Attr: AttrVportInfo, Modifier: 7, Data: good.Append(nil),
		}, StatusInvalid},
		{"rows of no port", 1, Message{
			Method: MethodSet, Attr: AttrMACEntries, Modifier: 200, Data: make([]byte, 8),
		}, StatusInvalid},
		{"rows beyond the end", 1, Message{
			Method: MethodSet, Attr: AttrMACEntries, Modifier: 1,
			Data: (&MACEntries{Offset: 2048, Num: 1, Rows: make([]MACEntry, 1)}).Append(nil),
		}, StatusInvalid},
		{"member 0", 1, Message{
			Method: MethodSet, Attr: AttrMembers, Modifier: 1, Data: make([]byte, 4),
		}, StatusInvalid},
		{"another manager's lease", 9, Message{
			Method: MethodSet, Attr: AttrLease, Data: (&Lease{Manager: "x", Ms: 9, LID: 1}).Append(nil),
		}, StatusInvalid},
		{"the lease is taken", 9, Message{
			Method: MethodSet, Attr: AttrLease, Data: (&Lease{Manager: "lab", Ms: 9, LID: 1}).Append(nil),
		}, StatusBusy},
	} {
		c.m.TID = 4711
		a.Receive(d.now, c.conn, c.m.Append(nil))
		out := a.Outbox()
		if len(out) != 1 || out[0].Conn != c.conn {
			t.Fatalf("%s: %d answers", c.name, len(out))
		}
		m, err := ParseMessage(out[0].Data)
		if err != nil || m.Status != c.status || m.TID != 4711 || m.Method != MethodResponse {
			t.Errorf("%s: %+v, %v, want status %#x", c.name, m, err, c.status)
		}
	}
	if a.Port(1).Tables != tables || len(a.LIDs()) != lids {
		t.Error("a refused request has changed something")
	}
	info := PowerOn()
	m := Message{Method: MethodGet, Attr: AttrVportInfo, Modifier: 99}
	a.Receive(d.now, 1, m.Append(nil))
	m, _ = ParseMessage(a.Outbox()[0].Data)
	if string(m.Data) != string(info.Append(nil)) || a.Port(99) != nil {
		t.Error("Get of an unknown port does not tell the power-on defaults, or makes the port")
	}
}

// TestHostileManagement: 10^5 messages, most of them made from good ones, from connections without
// a lease and from one with it. No table that is in use changes but through a request that was
// answered with OK, and no memory grows without end.
func TestHostileManagement(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 4))
	d := newDesk(t, threeHosts())
	a := d.join(1, testAgent("a", nil))
	var corpus [][]byte
	d.hold = func(_ int, m *Message) bool {
		corpus = append(corpus, m.Append(nil))
		return false
	}
	d.run()
	tables := a.Port(1).Tables
	d.agents = nil
	a.Connect(2) // 3 and 4 are nobody
	for i := range 100_000 {
		b := slices.Clone(corpus[r.IntN(len(corpus))])
		for range r.IntN(6) {
			switch r.IntN(4) {
			case 0:
				b[r.IntN(len(b))] = byte(r.Uint32())
			case 1:
				b = b[:1+r.IntN(len(b))]
			case 2:
				b = append(b, make([]byte, r.IntN(2100))...)
			default:
				b[r.IntN(len(b))] ^= 1 << r.IntN(8)
			}
		}
		d.manager.Receive(d.now, 2+r.IntN(3), b)
		a.Receive(d.now, 2+r.IntN(3), b) // nobody with these numbers has the lease
		a.Outbox()
		d.manager.Outbox()
		d.manager.Failed()
		if a.Port(1).Tables != tables || len(a.Ports()) != 2 || len(a.LIDs()) != 0 {
			t.Fatalf("message %d, %x, has changed something", i, b)
		}
	}
	if a.Stats.Malformed == 0 || a.Stats.Refused == 0 {
		t.Errorf("%+v", a.Stats)
	}
	if n := len(d.manager.sessions); n > 3 {
		t.Errorf("%d sessions of strangers", n)
	}
	t.Logf("agent %+v, manager %+v", a.Stats, d.manager.Stats)
}

// TestPlanErrors: each mistake is named.
func TestPlanErrors(t *testing.T) {
	for want, change := range map[string]func(*Plan){
		"same lid":      func(p *Plan) { p.Hosts[1].LID = 1 },
		"there twice":   func(p *Plan) { p.Hosts[1].Name = "a" },
		"lid is 0":      func(p *Plan) { p.Hosts[0].LID = 0 },
		"id is 4096":    func(p *Plan) { p.Switches[0].ID = 4096 },
		"same id":       func(p *Plan) { p.Switches[1].ID = 5 },
		"each one once": func(p *Plan) { p.Switches[1].Name = "blue" },
		"not there":     func(p *Plan) { p.Switches[0].Ports[0].Host = "zz" },
		"two ports":     func(p *Plan) { p.Switches[0].Ports[1].Host = "a" },
		"mtu is 16334":  func(p *Plan) { p.Switches[0].MTU = 16334 },
		"number 3": func(p *Plan) {
			p.Switches[0].Ports[0].Vport,
				p.Switches[1].Ports[0].Vport = 3, 3
		},
		"of one device":  func(p *Plan) { p.Switches[0].Ports[0].MAC = Broadcast },
		"default port":   func(p *Plan) { p.Switches[1].Default = []string{"c"} },
		"service class":  func(p *Plan) { p.Switches[0].PCPToSC[3] = 32 },
		"learned_max is": func(p *Plan) { p.Switches[0].Options.LearnedMax = 1 << 17 },
		"rc is 0x8":      func(p *Plan) { p.Switches[0].RC = 8 },
		"no port here":   func(p *Plan) { p.Switches[1].MACs = []PlanMAC{{1 << 8, "c"}} },
		"two rows":       func(p *Plan) { p.Switches[0].MACs = []PlanMAC{{1 << 8, "c"}, {1 << 8, "a"}} },
	} {
		p := threeHosts()
		change(p)
		if err := p.Complete(); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want something with %q", err, want)
		}
	}
}
