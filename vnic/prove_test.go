package vnic_test

import (
	"encoding/binary"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

// wireEnd is an endpoint of the fabric with what has come to it.
type wireEnd struct {
	t   *testing.T
	dom fabric.Domain
	ep  fabric.Endpoint
	got [][]byte
}

func openEnd(t *testing.T, node string) *wireEnd {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: node})
	if err != nil {
		t.Skip(err)
	}
	e := &wireEnd{t: t}
	if e.dom, err = fabric.Open(infos[0], fabric.DomainConfig{
		Buffers: vnic.ProverBuffers, BufferBytes: 512,
	}); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.dom.Close() })
	if e.ep, err = e.dom.OpenEndpoint(fabric.EndpointConfig{RxDepth: 64}); err != nil {
		t.Fatal(err)
	}
	for b := range fabric.Buf(64) {
		if _, err := e.ep.Recv([]fabric.Buf{b}); err != nil {
			t.Fatal(err)
		}
	}
	return e
}

// poll adds what has come to got.
func (e *wireEnd) poll() {
	var out [16]fabric.Completion
	n, err := e.ep.Poll(out[:])
	if err != nil {
		e.t.Fatal(err)
	}
	arena := e.dom.Arena()
	for _, c := range out[:n] {
		if c.Op == fabric.OpRecv {
			e.got = append(e.got, slices.Clone(arena.Bytes(c.Buf)[:c.Len]))
			if _, err := e.ep.Recv([]fabric.Buf{c.Buf}); err != nil {
				e.t.Fatal(err)
			}
		}
	}
}

func (e *wireEnd) send(to, data []byte) {
	addr, err := e.dom.Insert(to)
	if err != nil {
		e.t.Fatal(err)
	}
	const buf = fabric.Buf(vnic.ProverBuffers - 1)
	arena := e.dom.Arena()
	n := copy(arena.Bytes(buf), data)
	if _, err := e.ep.Post([]fabric.Send{{To: addr, Buf: buf, Len: uint32(n)}}); err != nil {
		e.t.Fatal(err)
	}
}

// proofLab is a manager that proves addresses, and the hosts that come to it.
type proofLab struct {
	t       *testing.T
	node    string
	now     mono.Time
	module  *btl.Module
	manager *vnic.Manager
	station *vnic.Station
	hosts   []*proofHost
}

func newProofLab(t *testing.T, node string) *proofLab {
	t.Helper()
	prover := openEnd(t, node) // skips where the family is missing
	_ = prover.ep.Close()
	number := uint64(1 << 60)
	p, err := vnic.NewProver(prover.dom, func() uint64 { number += 7; return number })
	if err != nil {
		t.Fatal(err)
	}
	l := &proofLab{t: t, node: node, now: 1, module: openAt(t, node)}
	l.manager = vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: 1})
	plan := &vnic.Plan{
		Hosts: []vnic.PlanHost{{Name: "a", LID: 1}, {Name: "b", LID: 2}},
		Switches: []vnic.PlanSwitch{{
			Name: "s", ID: 1, Ports: []vnic.PlanPort{{Host: "a"}, {Host: "b"}},
		}},
	}
	if err := plan.Complete(); err != nil {
		t.Fatal(err)
	}
	l.manager.SetPlan(plan)
	if l.station, err = vnic.NewManagerStation(l.module, l.manager, p); err != nil {
		t.Fatal(err)
	}
	return l
}

// proofHost is an agent. It answers what comes to its own endpoints.
type proofHost struct {
	l             *proofLab
	agent         *vnic.Agent
	station       *vnic.Station
	module        *btl.Module
	receive, send *wireEnd
	// dead drops that many of the datagrams that come, and of those that leave.
	deadIn, deadOut int
}

// join has a host register. receive and send are the names that it tells, nil for its own.
func (l *proofLab) join(host string, receive, send []byte) *proofHost {
	l.t.Helper()
	return l.joinAt(l.node, host, receive, send)
}

func (l *proofLab) joinAt(node, host string, receive, send []byte) *proofHost {
	l.t.Helper()
	h := &proofHost{
		l: l, module: openAt(l.t, node), receive: openEnd(l.t, node), send: openEnd(l.t, node),
	}
	if receive == nil {
		receive = h.receive.ep.Name()
	}
	if send == nil {
		send = h.send.ep.Name()
	}
	h.agent = vnic.NewAgent(vnic.AgentConfig{
		Host: host, Manager: "lab", Instance: uint64(len(l.hosts)) + 2,
		Ways: vnic.Ways{Receive: [][]byte{receive}, Send: [][]byte{send}, Module: h.module.Name()},
	})
	var err error
	if h.station, err = vnic.NewAgentStation(h.module, h.agent, nil); err != nil {
		l.t.Fatal(err)
	}
	if _, err := h.station.Dial(l.now, l.module.Name()); err != nil {
		l.t.Fatal(err)
	}
	l.hosts = append(l.hosts, h)
	return h
}

// pass makes a pass of a host.
func (h *proofHost) pass() {
	if _, err := h.station.Progress(h.l.now); err != nil {
		h.l.t.Fatal(err)
	}
	for _, p := range h.agent.Proofs() {
		if h.deadOut--; h.deadOut < 0 {
			h.send.send(p.To, p.Data)
		}
	}
	h.receive.poll()
	for _, b := range h.receive.got {
		if key, number, ok := vnic.ParseProof(b); ok {
			if h.deadIn--; h.deadIn < 0 {
				h.agent.Challenged(key, number)
			}
		}
	}
	h.receive.got = nil
}

// connected says whether the manager has a host.
func (l *proofLab) connected(host string) bool {
	return slices.ContainsFunc(l.manager.Hosts(), func(h *vnic.HostState) bool {
		return h.Name == host && h.Connected
	})
}

// until has a virtual millisecond pass again and again.
func (l *proofLab) until(what string, cond func() bool) {
	l.t.Helper()
	for end := l.now.Add(20 * time.Second); !cond(); {
		if l.now = l.now.Add(time.Millisecond); l.now > end {
			l.t.Fatalf("never: %s; %+v", what, l.manager.Stats)
		}
		if _, err := l.station.Progress(l.now); err != nil {
			l.t.Fatal(err)
		}
		for _, h := range l.hosts {
			h.pass()
		}
	}
}

// decided is the end of a registration.
func (l *proofLab) decided(h *proofHost, host string) vnic.Status {
	l.t.Helper()
	l.until("the registration is answered", func() bool {
		return h.agent.Refused() != vnic.StatusOK || l.connected(host)
	})
	return h.agent.Refused()
}

// families runs a test with addresses of both families.
func families(t *testing.T, test func(t *testing.T, l *proofLab)) {
	for name, node := range map[string]string{"IPv4": "127.0.0.1", "IPv6": "::1"} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			test(t, newProofLab(t, node))
		})
	}
}

// A host with its own addresses is accepted, and so is one that loses most datagrams.
func TestProof(t *testing.T) {
	families(t, func(t *testing.T, l *proofLab) {
		a := l.join("a", nil, nil)
		if got := l.decided(a, "a"); got != vnic.StatusOK {
			t.Fatalf("status %#x", got)
		}
		if at := l.now; at > mono.Time(50*time.Millisecond) {
			t.Errorf("it takes %v of the clock: a round is lost", time.Duration(at))
		}
		b := l.join("b", nil, nil)
		b.deadIn, b.deadOut = 5, 9
		if got := l.decided(b, "b"); got != vnic.StatusOK {
			t.Fatalf("beside lost datagrams: status %#x", got)
		}
		l.until("the hosts know each other", func() bool {
			return len(a.agent.LIDs()) == 1 && len(b.agent.LIDs()) == 1
		})
		if a.agent.Proving() || b.agent.Proving() {
			t.Error("an agent waits for datagrams when all is proven")
		}
	})
}

// An address of this host that never answers is not handed out, whatever else the agent proves.
func TestProofOfLiars(t *testing.T) {
	families(t, func(t *testing.T, l *proofLab) {
		a := l.join("a", nil, nil)
		l.decided(a, "a")
		victim := openEnd(t, l.node)
		for name, liar := range map[string]*proofHost{
			"receives at a stranger's": l.join("b", victim.ep.Name(), nil),
			"sends from a stranger's":  l.join("b", nil, victim.ep.Name()),
			"receives at a host's":     l.join("b", a.receive.ep.Name(), nil),
		} {
			got := l.decided(liar, "b")
			want := vnic.StatusUnproven
			if name == "receives at a host's" {
				want = vnic.StatusBusy
			}
			if got != want || l.connected("b") {
				t.Errorf("%s: status %#x, want %#x", name, got, want)
			}
		}
		if l.manager.Stats.Unproven != 2 {
			t.Errorf("%+v", l.manager.Stats)
		}
		if lids := a.agent.LIDs(); len(lids) != 0 {
			t.Errorf("a host is told %+v", lids)
		}
		victim.poll()
		victim.poll()
		bytes := 0
		for _, b := range victim.got {
			bytes += len(b)
		}
		if most := 20 * vnic.ProofBytes; bytes == 0 || bytes > most {
			t.Errorf("%d bytes have come to the stranger, want 1 to %d", bytes, most)
		}
		honest := l.join("b", nil, nil)
		if got := l.decided(honest, "b"); got != vnic.StatusOK {
			t.Errorf("the honest host after them: status %#x", got)
		}
	})
}

// What another agent answers, which may obey the liar as its manager, proves nothing of the liar.
func TestProofRelayed(t *testing.T) {
	families(t, func(t *testing.T, l *proofLab) {
		victim := openEnd(t, l.node)
		other := vnic.NewAgent(vnic.AgentConfig{Ways: vnic.Ways{
			Send: [][]byte{victim.ep.Name()}, Module: openAt(t, l.node).Name(),
		}})
		const conn = 1
		other.Connect(conn)
		liar := l.join("a", victim.ep.Name(), nil)
		relayed := 0
		l.until("it is refused", func() bool {
			victim.poll()
			for _, b := range victim.got {
				key, number, ok := vnic.ParseProof(b)
				if !ok {
					t.Fatalf("%x has come", b)
				}
				ask := binary.BigEndian.AppendUint64(nil, key) // as the manager of the other
				ask = append(append(ask, 1, 'm'), make([]byte, 8)...)
				msg := vnic.Message{Method: vnic.MethodSet, Attr: vnic.AttrProof, Data: ask}
				other.Receive(l.now, conn, msg.Append(nil))
				other.Outbox()
				other.Challenged(key, number)
				for _, answer := range other.Outbox() {
					sendOn(t, l.now, l.end(liar), answer.Data)
					relayed++
				}
			}
			victim.got = nil
			return liar.agent.Refused() != vnic.StatusOK || l.connected("a")
		})
		if relayed == 0 || liar.agent.Refused() != vnic.StatusUnproven || l.connected("a") {
			t.Errorf("status %#x after %d relayed answers", liar.agent.Refused(), relayed)
		}
	})
}

// end is a host's connection to the manager.
func (l *proofLab) end(h *proofHost) *btl.Endpoint {
	l.t.Helper()
	ep, err := h.module.Connect(l.now, l.module.Name())
	if err != nil {
		l.t.Fatal(err)
	}
	return ep
}

// A liar that registers first holds nothing: the host that proves its addresses has the place.
func TestProofFirst(t *testing.T) {
	families(t, func(t *testing.T, l *proofLab) {
		liar := l.join("a", openEnd(t, l.node).ep.Name(), nil)
		l.until("the liar is asked", func() bool { return liar.agent.Proving() })
		honest := l.join("a", nil, nil)
		l.until("the honest one is there", func() bool { return l.connected("a") })
		if liar.agent.Refused() != vnic.StatusOK || honest.agent.Refused() != vnic.StatusOK {
			t.Fatalf("the liar %#x, the other %#x", liar.agent.Refused(), honest.agent.Refused())
		}
		l.until("the liar is refused", func() bool { return liar.agent.Refused() != vnic.StatusOK })
		if !l.connected("a") {
			t.Error("the honest one is gone with the liar")
		}
	})
}

// Of two registrations of a host that are both proven the later one is refused.
func TestProofTwice(t *testing.T) {
	l := newProofLab(t, "127.0.0.1")
	both := []*proofHost{l.join("a", nil, nil), l.join("a", nil, nil)}
	l.until("both are asked", func() bool {
		return l.manager.Stats.Requests >= 2 && l.connected("a")
	})
	l.until("one is refused", func() bool {
		return both[0].agent.Refused() != vnic.StatusOK || both[1].agent.Refused() != vnic.StatusOK
	})
	if a, b := both[0].agent.Refused(), both[1].agent.Refused(); a+b != vnic.StatusBusy ||
		!l.connected("a") {
		t.Errorf("%#x and %#x", a, b)
	}
}

// A host that has moved is told to the others at its new addresses, when they are proven.
func TestProofMoved(t *testing.T) {
	l := newProofLab(t, "127.0.0.1")
	a, b := l.join("a", nil, nil), l.join("b", nil, nil)
	l.decided(a, "a")
	l.decided(b, "b")
	l.end(b).Close(l.now)
	l.until("b has left", func() bool { return !l.connected("b") })
	l.hosts = []*proofHost{a}
	moved := l.joinAt("127.0.0.2", "b", nil, nil)
	if got := l.decided(moved, "b"); got != vnic.StatusOK {
		t.Fatalf("status %#x", got)
	}
	l.until("a knows it", func() bool {
		lids := a.agent.LIDs()
		return len(lids) == 1 && slices.Equal(lids[0].Ways.Receive[0], moved.receive.ep.Name())
	})
}

// An agent that is older than proofs is refused with a reason of its own.
func TestProofOlder(t *testing.T) {
	l := newProofLab(t, "127.0.0.1")
	m := openAt(t, "127.0.0.1")
	var status vnic.Status
	answered := false
	err := m.Handle(vnic.TagManagement, func(ep *btl.Endpoint, _ btl.Tag, b []byte) {
		msg, err := vnic.ParseMessage(b)
		if err != nil {
			t.Error(err)
		}
		if msg.Method == vnic.MethodResponse {
			status, answered = msg.Status, true
			return
		}
		busy := msg.Response(vnic.StatusBusy, (&vnic.Lease{}).Append(nil))
		sendOn(t, l.now, ep, busy.Append(nil))
	})
	if err != nil {
		t.Fatal(err)
	}
	ep, err := m.Connect(l.now, l.module.Name())
	if err != nil {
		t.Fatal(err)
	}
	name := [][]byte{nameAt(t, "127.0.0.1")}
	r := vnic.Registration{Host: "a", Manager: "lab", Instance: 3, Ways: vnic.Ways{
		Receive: name, Send: name, Module: m.Name(),
	}}
	msg := vnic.Message{Method: vnic.MethodSet, Attr: vnic.AttrRegister, Data: r.Append(nil)}
	sendOn(t, l.now, ep, msg.Append(nil))
	l.until("it is answered", func() bool {
		if _, err := m.Progress(l.now); err != nil {
			t.Fatal(err)
		}
		return answered
	})
	if status != vnic.StatusVersion || l.manager.Stats.Older != 1 || l.connected("a") {
		t.Errorf("status %#x, %+v", status, l.manager.Stats)
	}
}

func sendOn(t *testing.T, now mono.Time, ep *btl.Endpoint, b []byte) {
	t.Helper()
	f, err := ep.Alloc(vnic.TagManagement, len(b))
	if err != nil {
		t.Fatal(err)
	}
	copy(f.Bytes(), b)
	if _, err := ep.Send(now, f); err != nil {
		t.Fatal(err)
	}
}
