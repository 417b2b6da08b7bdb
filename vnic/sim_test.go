package vnic_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// The simulated fabric: each host has ports on five of the switches.
const (
	simHosts    = 200
	simSwitches = 50
	simPorts    = 20 // of each switch
)

// simHost is a host: its agent on one node, its data path, without a device, on another.
type simHost struct {
	t       *testing.T
	name    string
	agent   *vnic.Agent
	station *vnic.Station
	module  []byte // its name
	dom     fabric.Domain
	ep      fabric.Endpoint
	arena   fabric.Arena
	host    vnic.Host
	out     map[uint8]*vnic.Egress
	in      map[uint8]*vnic.Ingress
	addrs   map[uint32]fabric.Addr
	lids    map[fabric.Addr]uint32
	heard   int
	node    *sim.Node
}

const simBuffers = 64 // the first receive, the last sends

// simAgent drives the agent's node.
type simAgent struct{ h *simHost }

func (p simAgent) Deadline() mono.Time { return p.h.station.Deadline() }

func (p simAgent) Progress(now mono.Time) (int, error) {
	h := p.h
	n, err := h.station.Progress(now)
	for _, proof := range h.agent.Proofs() {
		h.post(proof.To, proof.Data)
	}
	for changes := h.agent.Changes(); len(changes) > 0; changes = h.agent.Changes() {
		for _, c := range changes {
			h.apply(now, c)
		}
	}
	return n, err
}

// apply does what the threads of a real agent do with a change.
func (h *simHost) apply(now mono.Time, c vnic.Change) {
	if c.Vport == 0 {
		old := h.addrs
		h.addrs, h.lids = make(map[uint32]fabric.Addr), make(map[fabric.Addr]uint32)
		for _, e := range h.agent.LIDs() {
			a, err := h.dom.Insert(e.Ways.Receive[0])
			if err != nil {
				h.t.Fatal(err)
			}
			h.addrs[e.LID], h.lids[a] = a, e.LID
		}
		for _, a := range old {
			if err := h.dom.Remove(a); err != nil {
				h.t.Fatal(err)
			}
		}
		return
	}
	p := h.agent.Port(c.Vport)
	if h.out[c.Vport] == nil {
		fdb, near := new(vnic.FDB), new(vnic.Neighbours)
		h.out[c.Vport] = vnic.NewEgress(fdb, near, nil, 1)
		h.in[c.Vport] = vnic.NewIngress(fdb, near, nil)
		h.agent.SetLink(now, c.Vport, true)
	}
	h.out[c.Vport].SetTables(p.Tables)
	h.host.SetTables(h.in[c.Vport], p.Tables)
}

// simData drives the data path's node.
type simData struct{ h *simHost }

func (simData) Deadline() mono.Time { return mono.Never }

func (p simData) Progress(now mono.Time) (int, error) {
	var out [16]fabric.Completion
	n, err := p.h.ep.Poll(out[:])
	for _, c := range out[:n] {
		if c.Op != fabric.OpRecv {
			continue
		}
		mem := p.h.arena.Bytes(c.Buf)[:c.Len]
		if key, number, ok := vnic.ParseProof(mem); ok {
			p.h.agent.Challenged(key, number)
			p.h.node.Kick()
		} else if a, ok := p.h.host.Accept(now, p.h.lids[c.From], mem); ok {
			a.Port.Counts.CountRx(&a.Info, len(a.Frame), 1)
			p.h.heard++
		}
		if _, err := p.h.ep.Recv([]fabric.Buf{c.Buf}); err != nil {
			return n, err
		}
	}
	return n, err
}

// send sends a frame by a port, and says whether it left.
func (h *simHost) send(now mono.Time, vport uint8, dst vnic.MAC) bool {
	f := make([]byte, 60)
	dst.Put(f)
	h.agent.Port(vport).Info.BaseMAC.Put(f[6:])
	d := h.out[vport].Forward(now, f, len(f))
	if d.Verdict != vnic.Unicast {
		return false
	}
	buf := fabric.Buf(simBuffers - 1)
	mem := h.arena.Bytes(buf)
	copy(mem[vnic.HeaderBytes:], f)
	p := d.Header.Seal(mem, len(f))
	n, err := h.ep.Post([]fabric.Send{{To: h.addrs[d.Header.DLID], Buf: buf, Len: uint32(len(p))}})
	return n == 1 && err == nil
}

// simLab is the whole of it.
type simLab struct {
	t       *testing.T
	nw      *sim.Network
	hosts   []*simHost
	node    *sim.Node // the manager's
	manager *vnic.Manager
	station *vnic.Station
	module  *btl.Module
	prover  *vnic.Prover // nil: addresses are not proven
	lives   uint64
}

type simManager struct{ l *simLab }

func (p simManager) Deadline() mono.Time { return p.l.station.Deadline() }

func (p simManager) Progress(now mono.Time) (int, error) { return p.l.station.Progress(now) }

func (l *simLab) openModule(n *sim.Node, cfg btl.Config, seed uint64) *btl.Module {
	l.t.Helper()
	r := rand.New(rand.NewPCG(seed, uint64(n.Index())))
	cfg.Random = func() uint64 { return r.Uint64() }
	info := fabric.Info{MTUBytes: 1472, Provider: sim.ProviderName}
	dc, err := cfg.DomainConfig(info)
	if err != nil {
		l.t.Fatal(err)
	}
	dom, err := n.Open(dc)
	if err != nil {
		l.t.Fatal(err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		l.t.Fatal(err)
	}
	return m
}

// startManager begins a life of the manager.
func (l *simLab) startManager(plan *vnic.Plan, seed uint64) {
	l.t.Helper()
	l.lives++
	l.module = l.openModule(l.node, btl.Config{SendBuffers: 1024, RecvDepth: 1024}, seed+l.lives)
	l.manager = vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: l.lives})
	l.manager.SetPlan(plan)
	var err error
	if l.station, err = vnic.NewManagerStation(l.module, l.manager, l.prover); err != nil {
		l.t.Fatal(err)
	}
	l.node.Run(simManager{l})
	name := l.module.Name()
	for i, h := range l.hosts {
		l.nw.After(time.Duration(i)*time.Millisecond, func() {
			if _, err := h.station.Dial(l.nw.Now(), name); err != nil {
				l.t.Error(err)
			}
			l.nw.Node(h.name).Kick()
		})
	}
}

func (l *simLab) newHost(i int, seed uint64) *simHost {
	l.t.Helper()
	h := &simHost{
		t: l.t, name: fmt.Sprintf("h%d", i), out: make(map[uint8]*vnic.Egress),
		in: make(map[uint8]*vnic.Ingress), addrs: make(map[uint32]fabric.Addr),
		lids: make(map[fabric.Addr]uint32),
	}
	data := l.nw.Node("d" + h.name)
	var err error
	if h.dom, err = data.Open(fabric.DomainConfig{Buffers: simBuffers}); err != nil {
		l.t.Fatal(err)
	}
	if h.ep, err = h.dom.OpenEndpoint(fabric.EndpointConfig{Source: true}); err != nil {
		l.t.Fatal(err)
	}
	h.arena = h.dom.Arena()
	for b := range fabric.Buf(simBuffers - 1) {
		if _, err := h.ep.Recv([]fabric.Buf{b}); err != nil {
			l.t.Fatal(err)
		}
	}
	data.Run(simData{h})
	node := l.nw.Node(h.name)
	h.node = node
	m := l.openModule(node, btl.Config{
		SendBuffers: 64, RecvDepth: 16, PeersMax: 4, KeepAlive: 2 * time.Second,
	}, seed)
	h.agent = vnic.NewAgent(vnic.AgentConfig{
		Host: h.name, Manager: "lab", Instance: uint64(i) + 1,
		Ways: vnic.Ways{
			Receive: [][]byte{h.ep.Name()}, Send: [][]byte{h.ep.Name()}, Module: m.Name(),
		},
	})
	h.module = m.Name()
	if h.station, err = vnic.NewAgentStation(m, h.agent, nil); err != nil {
		l.t.Fatal(err)
	}
	node.Run(simAgent{h})
	return h
}

func simPlan(t *testing.T) *vnic.Plan {
	p := &vnic.Plan{}
	for i := range simHosts {
		p.Hosts = append(p.Hosts, vnic.PlanHost{Name: fmt.Sprintf("h%d", i), LID: uint32(i) + 1})
	}
	for s := range simSwitches {
		sw := vnic.PlanSwitch{Name: fmt.Sprintf("s%d", s), ID: uint16(s) + 1, Reported: true}
		for j := range simPorts {
			sw.Ports = append(sw.Ports, vnic.PlanPort{Host: fmt.Sprintf("h%d", (4*s+j)%simHosts)})
		}
		p.Switches = append(p.Switches, sw)
	}
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	return p
}

// until runs the network until cond holds, and returns how long that took in virtual time.
func (l *simLab) until(what string, limit time.Duration, cond func() bool) time.Duration {
	l.t.Helper()
	start := l.nw.Now()
	for !cond() {
		if l.nw.Now().Sub(start) > limit {
			l.t.Fatalf("not within %v: %s", limit, what)
		}
		l.nw.RunUntil(l.nw.Now().Add(5 * time.Millisecond))
	}
	return l.nw.Now().Sub(start)
}

func (l *simLab) synced() bool {
	for _, h := range l.manager.Hosts() {
		if !h.Synced {
			return false
		}
	}
	return true
}

// exchange has every port send a frame to its neighbour on the switch, and returns how many of the
// frames arrived.
func (l *simLab) exchange(plan *vnic.Plan) (sent, heard int) {
	before := 0
	for _, h := range l.hosts {
		before += h.heard
	}
	for i := range plan.Switches {
		s := &plan.Switches[i]
		for j, p := range s.Ports {
			h := l.hosts[(4*i+j)%simHosts]
			to := s.Ports[(j+1)%len(s.Ports)]
			if h.send(l.nw.Now(), p.Vport, to.MAC) {
				sent++
			}
			l.nw.Node("d" + h.name).Kick()
		}
		l.nw.RunUntil(l.nw.Now().Add(time.Millisecond))
	}
	l.nw.RunUntil(l.nw.Now().Add(5 * time.Millisecond))
	for _, h := range l.hosts {
		heard += h.heard
	}
	return sent, heard - before
}

// TestThousandPorts: a manager configures 1000 ports on 50 switches, a change reaches all ports
// of a
// switch, and a restart of the manager disturbs no frame.
func TestThousandPorts(t *testing.T) {
	const seed = 4711
	t.Logf("seed %d", seed)
	nw, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	l := &simLab{t: t, nw: nw, node: nw.Node("manager")}
	for i := range simHosts {
		l.hosts = append(l.hosts, l.newHost(i, seed))
	}
	plan := simPlan(t)
	before := heapBytes()
	l.startManager(plan, seed)
	took := l.until("every host is as the plan wants it", 5*time.Second, l.synced)
	ports := 0
	for _, h := range l.hosts {
		ports += len(h.agent.Ports())
	}
	if ports != simSwitches*simPorts {
		t.Fatalf("%d ports", ports)
	}
	t.Logf("%d ports on %d switches configured in %v of virtual time; %d bytes of heap for a port, "+
		"manager, agents and their packets in the network included", ports, simSwitches, took,
		(heapBytes()-before)/ports)
	if sent, heard := l.exchange(plan); sent != ports || heard != ports {
		t.Fatalf("of %d frames %d left and %d arrived", ports, sent, heard)
	}
	// An address moves from one host to another, on all ports of its switch.
	const moved = vnic.MAC(0x00AABBCCDDEE)
	for _, at := range []string{"h0", "h5"} {
		next := simPlan(t)
		next.Switches[0].MACs = []vnic.PlanMAC{{MAC: moved, Host: at}}
		l.manager.SetPlan(next)
		l.node.Kick()
		want := uint32(1)
		if at == "h5" {
			want = 6
		}
		took = l.until("the change is everywhere", time.Second, func() bool {
			for _, h := range l.hosts[:simPorts] {
				if lid, _ := h.agent.Port(1).MACs.Lookup(moved); lid != want {
					return false
				}
			}
			return l.synced()
		})
		t.Logf("an address is at %s on %d ports after %v", at, simPorts, took)
		plan = next
	}
	for i, h := range l.hosts { // each device reports an address
		h.agent.SetMACs(nw.Now(), 1, []vnic.MAC{0x00EE00000000 + vnic.MAC(i)}, nil)
		nw.Node(h.name).Kick()
	}
	took = l.until("what devices report is everywhere", 10*time.Second, func() bool {
		for i := range l.hosts {
			if lid, _ := l.hosts[i/4*4].agent.Port(1).MACs.Lookup(0x00EE00000000 +
				vnic.MAC(i)); lid != uint32(i)+1 {
				return false
			}
		}
		return l.synced()
	})
	t.Logf("an address of each host is in the tables after %v", took)
	l.restart(t, plan, seed)
}

// restart kills the manager, starts another, and has frames pass all the while.
func (l *simLab) restart(t *testing.T, plan *vnic.Plan, seed uint64) {
	tables := make(map[string]*vnic.Tables)
	for _, h := range l.hosts {
		tables[h.name] = h.agent.Port(1).Tables
	}
	l.node.Crash()
	ports := simSwitches * simPorts
	pass := func(when string) {
		t.Helper()
		if sent, heard := l.exchange(plan); sent != ports || heard != ports {
			t.Fatalf("%s: of %d frames %d left and %d arrived", when, ports, sent, heard)
		}
	}
	pass("without a manager")
	l.nw.RunUntil(l.nw.Now().Add(10 * time.Second)) // the lease runs out, connections die
	pass("long without a manager")
	l.startManager(plan, seed)
	for range 20 {
		pass("while the manager comes back")
	}
	took := l.until("the new manager has all hosts", 5*time.Second, l.synced)
	pass("with the new manager")
	for _, h := range l.hosts {
		if h.agent.Port(1).Tables != tables[h.name] {
			t.Errorf("host %s: the restart has exchanged tables that were right", h.name)
		}
	}
	t.Logf("after its restart the manager has all hosts %v after the frames", took)
}

// heapBytes is what is in use after a collection.
func heapBytes() int {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int(m.HeapAlloc)
}
