package vnic

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// provingDesk is a manager with a Prover in a simulated network. Its time is given.
type provingDesk struct {
	t       *testing.T
	nw      *sim.Network
	now     mono.Time
	manager *Manager
}

func newProvingDesk(t *testing.T) *provingDesk {
	t.Helper()
	return newProvingDeskOf(t, sim.Config{Seed: 1})
}

func newProvingDeskOf(t *testing.T, cfg sim.Config) *provingDesk {
	t.Helper()
	nw, err := sim.New(cfg)
	if err != nil {
		t.Fatal(err)
	}
	dom, err := nw.Node("prover").Open(fabric.DomainConfig{Buffers: ProverBuffers})
	if err != nil {
		t.Fatal(err)
	}
	p, err := NewProver(dom, rand.New(rand.NewPCG(1, 2)).Uint64)
	if err != nil {
		t.Fatal(err)
	}
	d := newDesk(t, threeHosts())
	d.manager.prover = p
	return &provingDesk{t: t, nw: nw, now: d.now, manager: d.manager}
}

// register lets a host register on a connection, with one name that receives and sends.
func (d *provingDesk) register(conn int, host string, name []byte) {
	d.t.Helper()
	r := Registration{Host: host, Manager: "lab", Instance: uint64(conn), Ways: Ways{
		Receive: [][]byte{name}, Send: [][]byte{name}, Module: fmt.Append(nil, "m", conn),
	}}
	m := Message{Method: MethodSet, Attr: AttrRegister, Data: r.Append(nil)}
	d.manager.Receive(d.now, conn, m.Append(nil))
}

// pass makes a pass of the manager, and returns the number of provings that it has looked at.
func (d *provingDesk) pass() int {
	d.t.Helper()
	before := d.manager.provings.looks
	if _, err := d.manager.proveAll(d.now); err != nil {
		d.t.Fatal(err)
	}
	return int(d.manager.provings.looks - before)
}

// asked returns the manager's request for proof on a connection. The request is taken from the
// messages that the manager sends.
func (d *provingDesk) asked(conn int) (m Message, p proofRequest) {
	d.t.Helper()
	for _, o := range d.manager.Outbox() {
		if o.Conn != conn {
			continue
		}
		m, err := ParseMessage(o.Data)
		if err != nil {
			d.t.Fatal(err)
		}
		if p, err = parseProofRequest(m.Data); err != nil {
			d.t.Fatal(err)
		}
		return m, p
	}
	d.t.Fatalf("connection %d is asked nothing", conn)
	return m, p
}

// proofEnd is an endpoint in the network of the desk.
type proofEnd struct {
	d   *provingDesk
	dom fabric.Domain
	ep  fabric.Endpoint
}

const proofEndBuffers = 4

func (d *provingDesk) end(name string) *proofEnd {
	d.t.Helper()
	dom, err := d.nw.Node(name).Open(fabric.DomainConfig{
		Buffers: proofEndBuffers, BufferBytes: 512,
	})
	if err != nil {
		d.t.Fatal(err)
	}
	ep, err := dom.OpenEndpoint(fabric.EndpointConfig{RxDepth: 1})
	if err != nil {
		d.t.Fatal(err)
	}
	if _, err := ep.Recv([]fabric.Buf{0}); err != nil {
		d.t.Fatal(err)
	}
	return &proofEnd{d: d, dom: dom, ep: ep}
}

// send sends a proof datagram to the manager. The datagram has arrived when send returns.
func (e *proofEnd) send(key, number uint64) {
	e.d.t.Helper()
	to, err := e.dom.Insert(e.d.manager.prover.ep.Name())
	if err != nil {
		e.d.t.Fatal(err)
	}
	const buf = proofEndBuffers - 1
	arena := e.dom.Arena()
	n := copy(arena.Bytes(buf), AppendProof(nil, key, number))
	if _, err := e.ep.Post([]fabric.Send{{To: to, Buf: buf, Len: uint32(n)}}); err != nil {
		e.d.t.Fatal(err)
	}
	e.d.nw.RunUntil(e.d.nw.Now().Add(time.Second))
}

// challenged returns the number of the challenge that has arrived.
func (e *proofEnd) challenged() uint64 {
	e.d.t.Helper()
	e.d.nw.RunUntil(e.d.nw.Now().Add(time.Second))
	var out [1]fabric.Completion
	n, err := e.ep.Poll(out[:])
	if err != nil || n == 0 {
		e.d.t.Fatalf("%d datagrams have arrived: %v", n, err)
	}
	arena := e.dom.Arena()
	_, number, ok := ParseProof(arena.Bytes(out[0].Buf)[:out[0].Len])
	if !ok {
		e.d.t.Fatal("another datagram has arrived")
	}
	return number
}

// TestProvingsOfMany: the work of a pass, and of a datagram at the Prover, does not grow with the
// strangers whose addresses are being proven. A host with its own addresses is accepted at once
// beside them, and they are refused in the end.
func TestProvingsOfMany(t *testing.T) {
	for _, strangers := range []int{1, 100, 4000} {
		d := newProvingDesk(t)
		silent := d.end("silent")
		for conn := 1; conn <= strangers; conn++ {
			d.register(conn, "a", silent.ep.Name())
		}
		if n := len(d.manager.provings.byConn); n != strangers {
			t.Fatalf("%d of %d registrations are being proven", n, strangers)
		}
		d.pass()
		d.now = d.now.Add(proveEvery / 2)
		if n := d.pass(); n != 0 {
			t.Errorf("%d strangers: a pass without work looks at %d provings", strangers, n)
		}
		silent.send(7, 7)
		if n := d.pass(); n > 1 {
			t.Errorf("%d strangers: for a datagram, %d provings are looked at", strangers, n)
		}
		d.now = d.now.Add(proveEvery)
		if n := d.pass(); n != min(strangers, roundsPerPass) {
			t.Errorf("%d strangers: a pass with work looks at %d provings", strangers, n)
		}
		if at := d.manager.proveAt(d.now); (at <= d.now) != (strangers > roundsPerPass) {
			t.Errorf("%d strangers: the next pass is due in %v", strangers, at.Sub(d.now))
		}
		conn, honest := strangers+1, d.end("honest")
		d.register(conn, "b", honest.ep.Name())
		m, p := d.asked(conn)
		module := fmt.Append(nil, "m", conn)
		answer := m.Response(StatusOK, nil)
		d.manager.Receive(d.now, conn, answer.Append(nil))
		proof := Message{Method: MethodSet, Attr: AttrProof, Data: appendProofAnswer(nil, p.key,
			proofOf(honest.challenged(), module))}
		d.manager.Receive(d.now, conn, proof.Append(nil))
		honest.send(p.key, proofOf(p.numbers[0], module))
		if d.pass(); d.manager.byHost["b"] == nil {
			t.Errorf("%d strangers: a host that proves its addresses is not accepted", strangers)
		}
		end := d.now.Add(2 * proveRounds * proveEvery)
		for passes := 0; d.now < end && passes < 1e5; passes++ {
			d.now = max(d.now, min(d.manager.proveAt(d.now), end))
			d.pass()
		}
		left := d.manager.provings
		if n := len(left.byConn) + len(left.byKey) + left.rounds.Len(); n != 0 ||
			d.manager.Stats.Unproven != uint64(strangers) {
			t.Errorf("%d strangers: %d are left; %+v", strangers, n, d.manager.Stats)
		}
		if at := d.manager.proveAt(d.now); at != mono.Never {
			t.Errorf("%d strangers: a pass is due without work", strangers)
		}
	}
}

// TestProverBuffers: after one poll, the buffers of all complete sends are free, although all
// receive buffers are full as well.
func TestProverBuffers(t *testing.T) {
	d := newProvingDeskOf(t, sim.Config{Seed: 1, InjectBytes: -1})
	p, silent := d.manager.prover, d.end("silent")
	to, err := p.dom.Insert(silent.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	const datagrams = ProverBuffers / 2
	if len(p.free) != datagrams || datagrams < roundsPerPass*LanesMax {
		t.Fatalf("%d buffers for %d rounds", len(p.free), roundsPerPass)
	}
	own, err := p.dom.Insert(p.ep.Name())
	if err != nil {
		t.Fatal(err)
	}
	for _, a := range []fabric.Addr{own, to} { // the datagrams to itself fill the receive buffers
		for range datagrams {
			p.send(a, 7, 7)
		}
		if len(p.free) != 0 {
			t.Fatalf("%d of %d buffers are free after the sends", len(p.free), datagrams)
		}
		d.nw.RunUntil(d.nw.Now().Add(time.Second))
		received := 0
		n, err := p.poll(func(fabric.Addr, uint64, uint64) { received++ })
		if err != nil || len(p.free) != datagrams {
			t.Errorf("%d completions, %d datagrams, %d of %d buffers are free: %v", n, received,
				len(p.free), datagrams, err)
		}
	}
}

// TestProofAskedOnce: an agent that does not answer a request for proof gets no further request,
// and its end leaves nothing.
func TestProofAskedOnce(t *testing.T) {
	d := newProvingDesk(t)
	silent := d.end("silent")
	const conn = 1
	d.register(conn, "a", silent.ep.Name())
	m, _ := d.asked(conn)
	for range 3 {
		d.now = d.now.Add(proveEvery)
		d.pass()
	}
	if n := len(d.manager.Outbox()); n != 0 {
		t.Errorf("%d more messages for an agent that does not answer", n)
	}
	answer := m.Response(StatusOK, nil)
	d.manager.Receive(d.now, conn, answer.Append(nil))
	d.now = d.now.Add(proveEvery)
	d.pass()
	d.asked(conn) // its datagram may be lost
	d.manager.Disconnect(conn)
	left := d.manager.provings
	if n := len(left.byConn) + len(left.byKey) + left.rounds.Len(); n != 0 {
		t.Errorf("%d are left", n)
	}
}
