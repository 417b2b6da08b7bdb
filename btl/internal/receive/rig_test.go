package receive

import (
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/peer"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// rig is two stations on one in-process network in virtual time. A rig stands in for package btl:
// it polls the ports, and gives the completions to the Receivers.
type rig struct {
	tb       testing.TB
	net      *mem.Network
	now      mono.Time
	stations [2]station
}

// station is one Receiver with its services.
type station struct {
	Receiver
	all   peer.Services
	name  frag.Name
	ended []error // of fragments, in the order of their ends
}

const rigBufferBytes = 1472

func newRig(tb testing.TB) *rig {
	tb.Helper()
	r := &rig{tb: tb, net: mem.New(mem.Config{}), now: 1}
	for i := range r.stations {
		r.open(&r.stations[i], uint64(i))
	}
	return r
}

func (r *rig) open(st *station, seed uint64) {
	r.tb.Helper()
	rules, err := reliability.Profile("adaptive")
	if err != nil {
		r.tb.Fatal(err)
	}
	const sendBuffers, depth, spare = 64, 32, 4
	dom, err := r.net.Open(fabric.DomainConfig{
		Buffers: sendBuffers + port.ControlBuffers + 2*depth + spare, BufferBytes: rigBufferBytes,
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = dom.Close() })
	cfg := peer.Config{
		Limits: limits.Limits{
			QuantumBytes: 44 * rigBufferBytes, PassPackets: 88, HalfOpenMax: 8, PeersPerAddress: 8,
			ReassemblyKeepBytes: 1 << 20,
		},
		SendBuffers: sendBuffers, PackBytes: 8 << 10, FragmentsMax: 64, PeersMax: 8, PeersPerHost: 8,
		RegionsMax: 8, FragmentBytesMax: 1 << 20, ReassemblyBytesMax: 1 << 20,
		PeerTimeout: 5 * time.Second, KeepAlive: time.Second,
		HandshakeTimeout: 3 * time.Second, CloseTimeout: time.Second,
		Random: numbers.NonZero(rand.New(rand.NewPCG(seed, 1)).Uint64),
	}
	ports := port.Config{
		SendBuffers: sendBuffers, CommandDepth: depth, RecvDepth: depth, Spare: spare,
		CommandBytes: 768, DataBytes: rigBufferBytes, PollBatch: 64, IdlePollEvery: 1,
	}
	err = st.all.Open(dom, &cfg, &rules, ports, peer.Owner{
		Module: st, NewEndpoint: func() *peer.Endpoint { return new(peer.Endpoint) },
		NewFragment: func() *peer.Fragment { return new(peer.Fragment) }, Deadline: st.all.Deadline,
		Ask: func(*frag.Hello, uint64) meet.Answer { return meet.Answer{} },
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	st.Init(&st.all, 1<<20)
	p := &st.all.Port
	st.name = frag.Name{
		Provider: p.WireName(), Command: p.Command.Name, Data: p.Data.Name,
		MTUBytes: uint16(p.Data.MTUBytes), CommandBytes: uint16(p.Command.MTUBytes),
	}
	st.all.OpenHandshakes([2][]byte{st.name.Command, st.name.Data})
	st.name.Incarnation = st.all.Handshakes.Says().Incarnation
}

// steps gives both stations passes, and checks their Receivers.
func (r *rig) steps(count int, d time.Duration) {
	r.tb.Helper()
	for range count {
		r.now = r.now.Add(d)
		for i := range r.stations {
			st := &r.stations[i]
			st.pass(r)
			if err := st.Check(false); err != nil {
				r.tb.Fatal(err)
			}
			if n := st.all.Count.Unaccounted(); n != 0 {
				r.tb.Fatalf("%d packets that no counter explains", n)
			}
		}
	}
}

// pass does what a call of Progress does, in the order of package btl.
func (st *station) pass(r *rig) {
	all := &st.all
	all.At(r.now)
	all.Clock.BeginPass(false)
	all.Packs.SendPacks()
	for _, c := range [...]*port.Channel{&all.Port.Command, &all.Port.Data} {
		n, err := c.Poll(r.now, 64)
		if err != nil {
			r.tb.Fatal(err)
		}
		for i := range c.Completions[:n] {
			st.Handle(c, &c.Completions[:n][i])
		}
		c.PostReceives()
	}
	for f := all.Outbox.NextEnded(); f != nil; f = all.Outbox.NextEnded() {
		st.ended = append(st.ended, f.Err)
		all.Frags.FreeFrag(f)
	}
	for _, ok := all.Outbox.NextNotice(); ok; _, ok = all.Outbox.NextNotice() {
	}
	all.Expire()
	all.Sent.SendAgain()
	all.Sender.Serve()
	all.Acks.NoteLull(false)
	all.Acks.Acknowledge()
	all.Buffers.PostAll()
	all.Clock.EndPass()
}

// connect returns the endpoint of station 0 to station 1.
func (r *rig) connect() *peer.Endpoint {
	r.tb.Helper()
	ep, err := r.stations[0].all.Handshakes.Connect(&r.stations[1].name)
	if err != nil {
		r.tb.Fatal(err)
	}
	r.steps(50, time.Millisecond)
	if !ep.ID.Settled() {
		r.tb.Fatalf("endpoint in state %v", ep.ID.State)
	}
	return ep
}

// send sends a message from station 0, and returns with which error it has ended.
func (r *rig) send(ep *peer.Endpoint, tag uint8, data []byte) error {
	r.tb.Helper()
	st := &r.stations[0]
	f, err := st.all.Frags.Prepare(ep, tag, data)
	if err != nil {
		r.tb.Fatal(err)
	}
	how := peer.SendOptions{Signal: true, Told: true}
	if _, err := st.all.Sender.Send(ep, r.now, f, how); err != nil {
		r.tb.Fatal(err)
	}
	st.ended = nil
	r.steps(200, time.Millisecond)
	if len(st.ended) != 1 {
		r.tb.Fatalf("%d messages have ended, want 1", len(st.ended))
	}
	return st.ended[0]
}
