package vnic_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// badAgent is a host that knows the manager, the plan, and the addresses of all hosts, and sends
// what harms most. It does not answer for addresses that it tells.
type badAgent struct {
	l      *simLab
	random *rand.Rand
	m      *btl.Module
	node   *sim.Node
	data   *simHost // whose data endpoint sends forged frames
	over   bool
	counts map[string]int
}

func (b *badAgent) Deadline() mono.Time                 { return b.m.Deadline() }
func (b *badAgent) Progress(now mono.Time) (int, error) { return b.m.Progress(now) }

// names are addresses for a registration: of a host, or of an endpoint that never answers.
func (b *badAgent) names() vnic.Ways {
	victim := b.l.hosts[b.random.IntN(len(b.l.hosts))].ep.Name()
	mine := b.data.ep.Name()
	pick := func() [][]byte {
		return [][]byte{[][]byte{victim, mine}[b.random.IntN(2)]}
	}
	return vnic.Ways{Receive: pick(), Send: pick(), Module: b.m.Name()}
}

// message is a management message: a registration that lies, a trap, an answer that nobody asked
// for, or a good message with other bytes.
func (b *badAgent) message() []byte {
	hosts := []string{"away", "h0", "h1", "nobody"}
	r := vnic.Registration{
		Host: hosts[b.random.IntN(len(hosts))], Manager: "lab", Instance: b.random.Uint64(),
		Ways: b.names(),
	}
	trap := vnic.Trap{VESW: 1, Port: 1, OPAPort: 1, Index: 1, Opcode: vnic.TrapUnicast}
	msg := []vnic.Message{
		{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: r.Append(nil)},
		{Method: vnic.MethodTrap, Attr: vnic.AttrVportInfo, Modifier: 1, Data: trap.Append(nil)},
		{Method: vnic.MethodResponse, Attr: vnic.AttrLease, TID: b.random.Uint64N(100)},
		{Method: vnic.MethodResponse, Attr: vnic.AttrProof},
		{Method: vnic.MethodSet, Attr: vnic.AttrProof, Data: make([]byte, 16)},
	}[b.random.IntN(5)]
	bytes := msg.Append(nil)
	if b.random.IntN(3) == 0 {
		bytes[b.random.IntN(len(bytes))] ^= byte(1 + b.random.IntN(255))
	}
	return bytes
}

// act does one thing, and comes again.
func (b *badAgent) act() {
	if b.over {
		return
	}
	now := b.l.nw.Now()
	switch b.random.IntN(6) {
	case 0, 1, 2: // to the manager
		ep, err := b.m.Connect(now, b.l.module.Name())
		if err == nil && ep.Connected() {
			b.send(ep, vnic.TagManagement, b.message())
		}
	case 3: // to an agent, which obeys no stranger
		h := b.l.hosts[b.random.IntN(len(b.l.hosts))]
		ep, err := b.m.Connect(now, h.module)
		if err == nil && ep.Connected() {
			lease := vnic.Lease{Manager: "lab", Instance: 9, Ms: 60_000, LID: 77}
			msg := vnic.Message{Method: vnic.MethodSet, Attr: vnic.AttrLease, Data: lease.Append(nil)}
			b.send(ep, vnic.TagManagement, msg.Append(nil))
		}
	case 4: // frames and proofs, forged
		b.forge(b.l.hosts[b.random.IntN(len(b.l.hosts))])
	case 5:
		if ep, err := b.m.Connect(now, b.l.module.Name()); err == nil && ep.Connected() {
			ep.Abort()
			b.counts["abort"]++
		}
	}
	b.node.Kick()
	b.l.nw.After(time.Duration(b.random.IntN(300))*time.Microsecond, b.act)
}

func (b *badAgent) send(ep *btl.Endpoint, tag btl.Tag, m []byte) {
	f, err := ep.Alloc(tag, len(m))
	if err != nil {
		return
	}
	copy(f.Bytes(), m)
	if _, err := ep.Send(b.l.nw.Now(), f); err != nil {
		_ = ep.Free(f)
		return
	}
	b.counts["message"]++
}

// forge sends a frame to a host in the name of another, or a proof that nobody has asked for.
func (b *badAgent) forge(to *simHost) {
	frame := make([]byte, 60)
	vnic.MACFor(1, 1).Put(frame)
	h := vnic.Header{SLID: uint32(1 + b.random.IntN(4)), DLID: uint32(1 + b.random.IntN(4)), VESW: 1}
	packet, err := h.Append(nil, frame)
	if err != nil {
		b.l.t.Error(err)
	}
	if b.random.IntN(2) == 0 {
		packet = vnic.AppendProof(nil, b.random.Uint64(), b.random.Uint64())
	}
	b.data.post(to.ep.Name(), packet)
	b.counts["datagram"]++
}

// post sends a datagram from a host's data endpoint.
func (h *simHost) post(to, data []byte) {
	addr, err := h.dom.Insert(to)
	if err != nil {
		h.t.Fatal(err)
	}
	const buf = fabric.Buf(simBuffers - 1)
	n := copy(h.arena.Bytes(buf), data)
	_, _ = h.ep.Post([]fabric.Send{{To: addr, Buf: buf, Len: uint32(n)}}) // It may be lost.
	if err := h.dom.Remove(addr); err != nil {
		h.t.Fatal(err)
	}
}

// TestBesideBadAgent: beside a host that lies to the manager, to agents and to their data paths,
// all frames between the others arrive, nobody learns an address of the liar, and another host that
// comes is configured.
func TestBesideBadAgent(t *testing.T) {
	for seed := range uint64(8) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			besideBadAgent(t, seed)
		})
	}
}

const besideHosts = 4

func besidePlan(t *testing.T) *vnic.Plan {
	t.Helper()
	p := &vnic.Plan{Hosts: []vnic.PlanHost{{Name: "away", LID: 9}}}
	sw := vnic.PlanSwitch{
		Name: "s", ID: 1, Reported: true, Ports: []vnic.PlanPort{{Host: "away"}},
	}
	for i := range besideHosts {
		name := fmt.Sprintf("h%d", i)
		p.Hosts = append(p.Hosts, vnic.PlanHost{Name: name, LID: uint32(i) + 1})
		sw.Ports = append(sw.Ports, vnic.PlanPort{Host: name})
	}
	p.Switches = append(p.Switches, sw)
	if err := p.Complete(); err != nil {
		t.Fatal(err)
	}
	return p
}

func besideBadAgent(t *testing.T, seed uint64) {
	nw, err := sim.New(sim.Config{Seed: seed})
	if err != nil {
		t.Fatal(err)
	}
	random := rand.New(rand.NewPCG(seed, 3))
	l := &simLab{t: t, nw: nw, node: nw.Node("manager")}
	proofs, err := nw.Node("prover").Open(fabric.DomainConfig{Buffers: vnic.ProverBuffers})
	if err != nil {
		t.Fatal(err)
	}
	if l.prover, err = vnic.NewProver(proofs, random.Uint64); err != nil {
		t.Fatal(err)
	}
	for i := range besideHosts {
		l.hosts = append(l.hosts, l.newHost(i, seed))
	}
	last := l.hosts[besideHosts-1]
	l.hosts = l.hosts[:besideHosts-1]
	l.startManager(besidePlan(t), seed)
	synced := func(n int) func() bool {
		return func() bool {
			have := 0
			for _, h := range l.manager.Hosts() {
				if h.Synced && h.Connected && h.Name != "away" {
					have++
				}
			}
			return have == n
		}
	}
	l.until("the hosts are as planned", 5*time.Second, synced(besideHosts-1))
	b := &badAgent{
		l: l, random: random, node: nw.Node("bad"), data: l.newHost(99, seed),
		counts: make(map[string]int),
	}
	b.m = l.openModule(b.node, btl.Config{SendBuffers: 64, RecvDepth: 16}, seed+99)
	if err := b.m.Handle(vnic.TagManagement, func(*btl.Endpoint, btl.Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	b.node.Run(b)
	b.act()
	sent, before := 0, heardBy(l.hosts)
	for range 200 {
		for i, h := range l.hosts {
			to := vnic.MACFor(1, uint32((i+1)%len(l.hosts))+1)
			if h.send(nw.Now(), 1, to) {
				sent++
			}
			nw.Node("d" + h.name).Kick()
		}
		nw.RunUntil(nw.Now().Add(5 * time.Millisecond))
		for _, h := range l.hosts {
			if slices.ContainsFunc(h.agent.LIDs(), func(e vnic.LIDEntry) bool { return e.LID == 9 }) {
				t.Fatal("an address that was not proven is told to a host")
			}
		}
	}
	if heard := heardBy(l.hosts) - before; sent != 200*len(l.hosts) || heard != sent {
		t.Errorf("of %d frames %d left and %d arrived", 200*len(l.hosts), sent, heard)
	}
	if !synced(besideHosts - 1)() {
		t.Errorf("a host was lost: %+v", l.manager.Stats)
	}
	if _, err := last.station.Dial(nw.Now(), l.module.Name()); err != nil {
		t.Fatal(err)
	}
	nw.Node(last.name).Kick()
	l.until("the host that comes is as planned", 5*time.Second, synced(besideHosts))
	b.over = true
	if s := l.manager.Stats; s.Unproven == 0 || b.counts["message"] < 500 ||
		b.counts["datagram"] < 500 || b.counts["abort"] == 0 {
		t.Errorf("%+v; the bad host has done %v", s, b.counts)
	}
}

func heardBy(hosts []*simHost) (n int) {
	for _, h := range hosts {
		n += h.heard
	}
	return n
}
