package peer

import (
	"errors"
	"math/rand/v2"
	"strconv"
	"testing"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/limits"
	"gobtl/internal/mono"
	"gobtl/reliability"
)

// rig is a set of Services on one in-process network in virtual time. A rig stands in for the
// packages above: it polls the ports, hands the packets to the parts of Services, and takes what
// the Outbox has.
type rig struct {
	tb       testing.TB
	net      *mem.Network
	now      mono.Time
	stations []*station
}

// station is one Services of a rig.
type station struct {
	Services
	rig     *rig
	checker Checker
	name    frag.Name
	got     int              // messages that have arrived
	ended   map[uint64]error // by Fragment.label
	events  []Event
}

// rigConfig is the configuration of the stations of a rig.
type rigConfig struct {
	Config
	rules reliability.Rules
	ports port.Config
	net   mem.Config
}

const rigBufferBytes = 1472

// newRig opens stations, of which each has the configuration that change makes of the usual one.
func newRig(tb testing.TB, count int, change func(*rigConfig)) *rig {
	tb.Helper()
	r := &rig{tb: tb, now: 1}
	for i := range count {
		rules, err := reliability.Profile("adaptive")
		if err != nil {
			tb.Fatal(err)
		}
		cfg := rigConfig{
			Config: Config{
				Limits: limits.Limits{
					QuantumBytes: 44 * rigBufferBytes, PassPackets: 88, HalfOpenMax: 8, PeersPerAddress: 8,
					ReassemblyKeepBytes: 1 << 20,
				},
				SendBuffers: 128, PackBytes: 8 << 10, FragmentsMax: 64, PeersMax: 8, PeersPerHost: 8,
				RegionsMax: 8, FragmentBytesMax: 1 << 20, ReassemblyBytesMax: 1 << 20,
				PeerTimeout: 5 * time.Second, KeepAlive: time.Second,
				HandshakeTimeout: 3 * time.Second, CloseTimeout: time.Second,
				Random: numbers.NonZero(rand.New(rand.NewPCG(uint64(i), 1)).Uint64),
			},
			rules: rules,
			ports: port.Config{
				SendBuffers: 128, CommandDepth: 64, RecvDepth: 64, CommandBytes: 768,
				DataBytes: rigBufferBytes, PollBatch: 128, IdlePollEvery: 1,
			},
			net: mem.Config{FreeRegions: true},
		}
		if change != nil {
			change(&cfg)
		}
		if r.net == nil {
			r.net = mem.New(cfg.net)
		}
		r.open(&cfg)
	}
	return r
}

func (r *rig) open(cfg *rigConfig) {
	r.tb.Helper()
	buffers := cfg.SendBuffers + port.ControlBuffers + cfg.ports.CommandDepth + cfg.ports.RecvDepth
	dom, err := r.net.Open(fabric.DomainConfig{Buffers: buffers, BufferBytes: cfg.ports.DataBytes})
	if err != nil {
		r.tb.Fatal(err)
	}
	r.tb.Cleanup(func() { _ = dom.Close() })
	st := &station{rig: r, ended: map[uint64]error{}}
	err = st.Open(dom, &cfg.Config, &cfg.rules, cfg.ports, Owner{
		Module: st, NewEndpoint: func() *Endpoint { return new(Endpoint) },
		NewFragment: func() *Fragment { return new(Fragment) }, Deadline: st.Services.Deadline,
		Ask: func(*frag.Hello, uint64) meet.Answer { return meet.Answer{} },
	})
	if err != nil {
		r.tb.Fatal(err)
	}
	st.name = frag.Name{
		Provider: st.Port.WireName(), Command: st.Port.Command.Name, Data: st.Port.Data.Name,
		MTUBytes:     uint16(st.Port.Data.MTUBytes),
		CommandBytes: uint16(st.Port.Command.MTUBytes),
	}
	st.OpenHandshakes([2][]byte{st.name.Command, st.name.Data})
	st.name.Incarnation = st.Handshakes.Says().Incarnation
	r.stations = append(r.stations, st)
}

// step gives every station one pass, d later, and checks its state.
func (r *rig) step(d time.Duration) {
	r.tb.Helper()
	r.now = r.now.Add(d)
	for i, st := range r.stations {
		st.pass()
		if err := st.check(); err != nil {
			r.tb.Fatalf("station %d at %d: %v", i, r.now, err)
		}
	}
}

// steps gives passes for a time.
func (r *rig) steps(count int, d time.Duration) {
	r.tb.Helper()
	for range count {
		r.step(d)
	}
}

// connect returns the endpoint of station i to station j, which is connected.
func (r *rig) connect(i, j int) *Endpoint {
	r.tb.Helper()
	st := r.stations[i]
	st.At(r.now)
	ep, err := st.Handshakes.Connect(&r.stations[j].name)
	if err != nil {
		r.tb.Fatal(err)
	}
	for range 100 {
		r.step(10 * time.Microsecond)
		if other := r.stations[j].to(i); ep.ID.Settled() && other != nil && other.ID.Settled() {
			return ep
		}
	}
	r.tb.Fatalf("endpoint in state %v", ep.ID.State)
	return nil
}

// to returns the endpoint of the station to station j, or nil.
func (st *station) to(j int) *Endpoint {
	return st.Peers.ByAddr(string(st.rig.stations[j].name.Command))
}

// check verifies the state of the station, as btl.Module.Check does.
func (st *station) check() error {
	return errors.Join(st.checker.Check(&st.Services, false), st.Port.CheckAddresses(st.Peers.Len()),
		st.Port.Check([2]int{}), st.checker.CheckStats(&st.Services, false))
}

// pass does what a call of Progress does, in the order of package btl.
func (st *station) pass() {
	st.Tick(st.rig.now)
	st.Clock.BeginPass(false)
	st.Rest.Set(0)
	st.Packs.SendPacks()
	for _, c := range [...]*port.Channel{&st.Port.Command, &st.Port.Data} {
		n, err := c.Poll(st.Clock.Now, 128)
		if err != nil {
			st.rig.tb.Fatal(err)
		}
		for i := range c.Completions[:n] {
			st.completion(c, &c.Completions[:n][i])
		}
		c.PostReceives()
	}
	st.Outbox.FindRoom(true)
	st.callOut()
	st.Expire()
	st.Sent.SendAgain()
	st.Sender.Serve()
	st.Acks.NoteLull(false)
	st.Acks.Acknowledge()
	st.Buffers.PostAll()
	st.Port.RemoveLeft(st.Clock.Now)
	st.callOut()
	st.Published()
	st.Clock.EndPass()
}

func (st *station) callOut() {
	for f := st.Outbox.NextEnded(); f != nil; f = st.Outbox.NextEnded() {
		st.ended[uint64(f.size)] = f.Err
		st.Frags.FreeFrag(f)
	}
	for n, ok := st.Outbox.NextNotice(); ok; n, ok = st.Outbox.NextNotice() {
		switch n.Kind {
		case NoteFlush:
			n.Flushed(n.Err)
		case NoteEvent:
			st.events = append(st.events, n.Event)
		}
	}
}

func (st *station) completion(c *port.Channel, comp *fabric.Completion) {
	if comp.Op == fabric.OpSend {
		st.Sched.SetBlocked(false)
		c.SendDone(comp.Buf)
		st.Buffers.SettleSends()
		return
	}
	c.Received(1)
	st.Port.Keeper.Hold(comp.Buf)
	var h frag.Header
	payload, err := frag.Decode(st.Port.Arena.Bytes(comp.Buf)[:comp.Len], &h)
	if err != nil {
		st.rig.tb.Fatal(err)
	}
	st.Count[stats.CntReceived]++
	st.Count[st.packet(c, comp, &h, payload)]++
	c.Return(st.Port.Keeper.Held())
}

// packet handles a received packet, and returns its counter.
func (st *station) packet(
	c *port.Channel, comp *fabric.Completion, h *frag.Header, payload []byte,
) stats.Counter {
	var hello frag.Hello
	by := frag.Probe(c.Which)
	switch h.Kind {
	case frag.KindHello:
		if frag.DecodeHello(payload, &hello) != nil || !st.Handshakes.OnHello(by, h, &hello,
			frag.FragHeaderBytes+len(payload), c.AppendSource(nil, comp)) {
			return stats.CntDropHandshake
		}
		return stats.CntRecvHandshake
	case frag.KindHelloAck:
		if frag.DecodeHello(payload, &hello) != nil || !st.Handshakes.OnHelloAck(by, h, &hello) {
			return stats.CntDropHandshake
		}
		return stats.CntRecvHandshake
	case frag.KindRetry:
		var retry frag.Retry
		if frag.DecodeRetry(payload, &retry) != nil || !st.Handshakes.OnRetry(by, h, &retry) {
			return stats.CntDropHandshake
		}
		return stats.CntRecvHandshake
	case frag.KindPing, frag.KindPong: // a path of the least MTU is enough here
		return stats.CntDropPing
	}
	ep := st.Peers.Lookup(h.Conn)
	if ep == nil {
		return stats.CntDropConn
	}
	if !ep.ID.Settled() {
		if ep = st.Handshakes.OnPacket(ep); ep == nil {
			return stats.CntDropState
		}
	}
	if h.Flags&frag.FlagSack != 0 {
		return st.sack(ep, h, payload)
	}
	return st.numbered(c, ep, h, payload)
}

func (st *station) sack(ep *Endpoint, h *frag.Header, payload []byte) stats.Counter {
	var s frag.Sack
	frag.DecodeSack(payload, &s)
	var words [frag.WindowMax / 64]uint64
	st.Sent.OnSack(ep, h, &reliability.Sack{
		Words: words[:s.Words(words[:])], Last: s.Last, Copies: s.Copies,
	})
	return stats.CntRecvAck
}

func (st *station) numbered(
	c *port.Channel, ep *Endpoint, h *frag.Header, payload []byte,
) stats.Counter {
	if h.Flags&frag.FlagAck != 0 && !st.Sent.OnAck(ep, h, false) {
		return stats.CntDropAck
	}
	ep.Life.Heard(st.Clock.Unpaused, int(c.Which))
	if !h.Kind.HasSeq() {
		return stats.CntRecvAck
	}
	if ep.Rcv.Check(h.Seq) != reliability.Accept {
		return stats.CntDuplicate
	}
	counter := stats.CntRecvFrag
	whole := true
	if h.Kind == frag.KindChunk {
		counter = stats.CntRecvChunk
		msg, err := ep.Asm.Add(h, payload, h.Seq == ep.Rcv.Next())
		if err != nil {
			return stats.CntDropReassembly
		}
		if whole = msg != nil; whole {
			msg.Release()
		}
	}
	ep.Rcv.Accept(st.Clock.Now, h.Seq, &st.Rules)
	ep.Rcv.Weigh(frag.HeaderBytes(h.Kind, h.Flags) + len(payload))
	ep.Numbers.Saw(h.Number, c.Which)
	st.Acks.Owe(&ep.Rcv, st.Clock.Now)
	if whole && h.Tag <= frag.TagUserMax {
		st.got++
		st.Count[stats.CntDelivered]++
	}
	if h.Tag == frag.TagBye {
		ep.Bye.Came(h.Seq, frag.ByeCode(payload))
		if ep.Bye.Due(ep.Rcv.Next()) {
			st.Endings.PeerClosed(ep)
		}
	}
	return counter
}

// alloc lends a fragment with a send buffer.
func (st *station) alloc(ep *Endpoint, sizeBytes int) *Fragment {
	st.rig.tb.Helper()
	f, err := st.Frags.Alloc(ep, 3, sizeBytes)
	if err != nil {
		st.rig.tb.Fatal(err)
	}
	return f
}

// send sends a message whose end is noted in ended, by its size.
func (st *station) send(ep *Endpoint, sizeBytes int) *Fragment {
	st.rig.tb.Helper()
	f, err := st.Frags.Prepare(ep, 3, make([]byte, sizeBytes))
	if err != nil {
		st.rig.tb.Fatal(err)
	}
	_, err = st.Sender.Send(ep, st.rig.now, f, SendOptions{Signal: true, Told: true})
	if err != nil {
		st.rig.tb.Fatal(strconv.Itoa(sizeBytes), err)
	}
	return f
}

// TestRig checks that messages of all sizes between two stations arrive, and end at the sender.
func TestRig(t *testing.T) {
	r := newRig(t, 2, nil)
	ep := r.connect(0, 1)
	sizes := []int{1, 8, 700, 1000, 5000, 100_000}
	for _, size := range sizes {
		r.stations[0].send(ep, size)
	}
	r.steps(400, 5*time.Millisecond)
	for _, size := range sizes {
		if err, ok := r.stations[0].ended[uint64(size)]; err != nil || !ok {
			t.Errorf("%d bytes: ended %v, %v", size, ok, err)
		}
	}
	if got := r.stations[1].got; got != len(sizes) {
		t.Errorf("%d of %d messages arrived", got, len(sizes))
	}
	if err := r.stations[0].CheckIdle(false); err != nil {
		t.Error(err)
	}
}
