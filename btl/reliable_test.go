package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/fabric"
	"gobtl/fabric/impair"
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// cacheLineBytes is the size to which the payloads of chunks are aligned.
const cacheLineBytes = 64

// relied is a set of modules on a network that is reliable by itself, in virtual time.
type relied struct {
	tb    testing.TB
	nw    *sim.Network
	mods  []*Module
	nodes []*sim.Node
	sent  []frag.Header // what left the nodes and was no handshake
}

// checked is a process that looks at its module's state after each pass.
type checked struct {
	*Module
	tb testing.TB
}

func (c checked) Progress(now Time) (int, error) {
	n, err := c.Module.Progress(now)
	if e := c.Check(); e != nil {
		c.tb.Error(e)
	}
	return n, err
}

func newRelied(tb testing.TB, net sim.Config, cfgs ...Config) *relied {
	tb.Helper()
	r := &relied{tb: tb}
	net.Reliable = true
	net.Observe = func(e *sim.Event) {
		var h frag.Header
		if e.Kind == sim.KindSent {
			if _, err := frag.Decode(e.Data, &h); err != nil {
				tb.Errorf("sent %x: %v", e.Data, err)
			}
			switch h.Kind {
			case frag.KindHello, frag.KindHelloAck, frag.KindReject, frag.KindRetry:
			default:
				r.sent = append(r.sent, h)
			}
		}
	}
	nw, err := sim.New(net)
	if err != nil {
		tb.Fatal(err)
	}
	r.nw = nw
	for i, cfg := range cfgs {
		r.open(string(rune('a'+i)), cfg, nil)
	}
	return r
}

func (r *relied) open(name string, cfg Config,
	wrap func(d fabric.Domain, visibleBuffers int) fabric.Domain,
) *Module {
	r.tb.Helper()
	node := r.nw.Node(name)
	info := node.Info()
	dc, err := cfg.DomainConfig(info)
	if err != nil {
		r.tb.Fatal(err)
	}
	visible := dc.Buffers
	if wrap != nil {
		dc = impair.Reserve(dc)
	}
	dom, err := node.Open(dc)
	if err != nil {
		r.tb.Fatal(err)
	}
	if wrap != nil {
		dom = wrap(dom, visible)
	}
	m, err := Open(dom, cfg)
	if err != nil {
		r.tb.Fatal(err)
	}
	node.Run(checked{m, r.tb})
	r.mods, r.nodes = append(r.mods, m), append(r.nodes, node)
	return m
}

// run lets time pass, after a pass of everybody.
func (r *relied) run(d time.Duration) {
	for _, n := range r.nodes {
		n.Kick()
	}
	r.nw.RunUntil(r.nw.Now().Add(d))
}

func (r *relied) connect(i, j int) *Endpoint {
	r.tb.Helper()
	ep, err := r.mods[i].Connect(r.mods[i].Now(), r.mods[j].Name())
	if err != nil {
		r.tb.Fatal(err)
	}
	r.run(time.Second)
	if !ep.Connected() {
		r.tb.Fatalf("not connected: %v", ep.Err())
	}
	return ep
}

// send sends size bytes; *got is what OnDone says.
func (r *relied) send(ep *Endpoint, tag Tag, size int, got *error) {
	r.tb.Helper()
	f, err := ep.Prepare(tag, bytes.Repeat([]byte{byte(size)}, size))
	if err != nil {
		r.tb.Fatal(err)
	}
	f.Signal = true
	*got = errNotEnded
	f.OnDone = func(_ *Fragment, err error) { *got = err }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		r.tb.Fatal(err)
	}
}

var errNotEnded = errors.New("not ended")

// relyConfig has few buffers, so that Check is cheap.
func relyConfig() Config {
	return Config{SendBuffers: 64, RecvDepth: 64, FragmentsMax: 64, PeersMax: 16}
}

// A reliable connection has no ACKs but those that are asked for, no numbers but where it asks, no
// timers; all arrives in order.
func TestReliableExchange(t *testing.T) {
	first := uint64(1<<32 - 3) // numbers wrap, and leave out zero
	cfg := relyConfig()
	cfg.Random = func() uint64 { first += 1 << 40; return first }
	other := relyConfig()
	r := newRelied(t, sim.Config{}, cfg, other)
	var got []int
	for tag := range Tag(3) {
		if err := r.mods[1].Handle(tag, func(_ *Endpoint, _ Tag, data []byte) {
			if len(data) > 0 && data[0] != byte(len(data)) {
				t.Errorf("%d bytes of %d", len(data), data[0])
			}
			got = append(got, len(data))
		}); err != nil {
			t.Fatal(err)
		}
	}
	ep := r.connect(0, 1)
	if !ep.c.ID.Counted {
		t.Fatal("not reliable")
	}
	r.sent = nil
	var want []int
	for i := range 200 { // more than the credits that it begins with
		if err := ep.SendImmediate(ep.Now(), 0, bytes.Repeat([]byte{byte(i)}, i)); err != nil {
			t.Fatal(err)
		}
		want = append(want, i)
		r.run(10 * time.Microsecond)
	}
	acks := 0
	for i := range r.sent {
		h := &r.sent[i]
		switch {
		case h.Kind == frag.KindAck:
			acks++
		case h.Seq != 0 || h.Flags != 0:
			t.Errorf("%v has number %d, flags %x", h.Kind, h.Seq, h.Flags)
		}
	}
	if acks > 30 {
		t.Errorf("%d ACKs for %d messages that nobody waits for", acks, len(want))
	}
	ends := make([]error, 8)
	flushed := errNotEnded
	for i := range ends {
		r.send(ep, 1, 3000*i, &ends[i])
		want = append(want, 3000*i)
	}
	ep.Flush(ep.Now(), func(err error) { flushed = err })
	r.run(time.Millisecond)
	for i, err := range append(ends, flushed) {
		if err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	if len(got) != len(want) {
		t.Fatalf("%d of %d delivered", len(got), len(want))
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("message %d has %d bytes, want %d", i, got[i], want[i])
		}
	}
	s := r.mods[0].counted()
	if s.Retransmits() != 0 || s.Get(CntPeersReliable) != 1 || inFlight(r.mods[0]) != 0 {
		t.Errorf("%d packets again, %d reliable connections", s.Retransmits(), s.Get(CntPeersReliable))
	}
	// A lone message that asks for nothing is confirmed in the end, and so is one for a Flush.
	if err := ep.SendImmediate(ep.Now(), 0, nil); err != nil {
		t.Fatal(err)
	}
	r.run(10 * time.Microsecond)
	if flying(ep) != 1 {
		t.Errorf("%d packets not confirmed", flying(ep))
	}
	flushed = errNotEnded
	ep.Flush(ep.Now(), func(err error) { flushed = err })
	if r.run(time.Millisecond); flushed != nil {
		t.Errorf("flush: %v", flushed)
	}
	ep.Close(ep.Now())
	r.run(3 * time.Second)
	for _, m := range r.mods {
		if err := m.CheckIdle(); err != nil {
			t.Error(err)
		}
	}
}

// Without both sides' word, a connection sees to its losses itself.
func TestReliableMixedPair(t *testing.T) {
	own := relyConfig()
	own.Reliability = "own"
	for _, pair := range [][2]Config{{own, relyConfig()}, {relyConfig(), own}, {own, own}} {
		r := newRelied(t, sim.Config{}, pair[0], pair[1])
		n := 0
		if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
			t.Fatal(err)
		}
		ep := r.connect(0, 1)
		var end error
		r.send(ep, 1, 5000, &end)
		if r.run(time.Second); end != nil || n != 1 {
			t.Errorf("%v, %d delivered", end, n)
		}
		for _, m := range r.mods {
			if endpointOf(m.all.Peers.At(0)).c.ID.Counted || counter(m, CntPeersReliable) != 0 {
				t.Error("reliable, although one side is not")
			}
		}
	}
}

// Faults that are put over a reliable provider make it one that is not.
func TestReliableImpaired(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig())
	m := r.open("z", relyConfig(), func(d fabric.Domain, visible int) fabric.Domain {
		bad, err := impair.Wrap(d, visible, impair.Faults{Seed: 1, Loss: 0.2})
		if err != nil {
			t.Fatal(err)
		}
		return bad
	})
	if m.all.Port.Reliable {
		t.Fatal("relies on an impaired fabric")
	}
	n := 0
	if err := m.Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	ends := make([]error, 40)
	for i := range ends {
		r.send(ep, 1, 1000+10*i, &ends[i])
	}
	r.run(time.Minute)
	for i, err := range ends {
		if err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	if again := r.mods[0].counted().Retransmits(); n != len(ends) || again == 0 {
		t.Errorf("%d of %d delivered, %d packets again", n, len(ends), again)
	}
}

// A packet that is lost all the same ends the connection, and nothing behind it is confirmed.
func TestReliableLost(t *testing.T) {
	for _, asks := range []bool{false, true} {
		r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
		var lost error
		r.mods[1].OnEndpoint(func(_ *Endpoint, ev Event, err error) {
			if ev == EventFailed {
				lost = err
			}
		})
		if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
			t.Fatal(err)
		}
		ep := r.connect(0, 1)
		r.nw.SetFilter(func(*sim.Datagram) sim.Verdict { return sim.Verdict{Drop: true} })
		if err := ep.SendImmediate(ep.Now(), 1, []byte("lost")); err != nil {
			t.Fatal(err)
		}
		r.run(time.Microsecond)
		r.nw.SetFilter(nil)
		end := error(nil)
		if asks {
			r.send(ep, 1, 100, &end)
		}
		r.run(20 * time.Second)
		if !errors.Is(lost, ErrLost) || counter(r.mods[1], CntDropLost) != 1 {
			t.Errorf("the receiver ended with %v", lost)
		}
		var told *errs.EndedError
		if !errors.As(ep.Err(), &told) || told.Code != frag.ByeBroken || asks && !errors.As(end, &told) {
			t.Errorf("the sender ended with %v, its send with %v", ep.Err(), end)
		}
	}
}

// A peer that is gone is noticed by a sender that waits for nothing, by one that the fabric cannot
// serve, and by one that never got credits.
func TestReliableDead(t *testing.T) {
	for name, kill := range map[string]func(r *relied, ep *Endpoint){
		"crash": func(r *relied, _ *Endpoint) { r.nodes[1].Crash() },
		"fabric": func(r *relied, _ *Endpoint) {
			r.nodes[0].SetFaults(sim.NodeFaults{SendError: 1})
		},
	} {
		r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
		ep := r.connect(0, 1)
		began := r.nw.Now()
		kill(r, ep)
		_ = ep.SendImmediate(ep.Now(), 1, []byte("anybody?"))
		r.run(4 * time.Second)
		if late := ep.Err() == nil; late != (name == "crash") {
			t.Errorf("%s: after 4 s: %v", name, ep.Err())
		}
		r.run(2 * time.Second)
		if !errors.Is(ep.Err(), ErrPeerDead) {
			t.Errorf("%s: %v after %v", name, ep.Err(), r.nw.Now().Sub(began))
		}
	}
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: frag.Kind(d.Data[1]&15) == frag.KindAck}
	})
	ep := r.connect(0, 1)
	r.nodes[1].Crash()
	var end error
	r.send(ep, 1, 10, &end)
	if r.run(10 * time.Second); !errors.Is(end, ErrPeerDead) {
		t.Error("a send without credits ended with", end)
	}
}

// What a peer refuses ends with its error, and nothing else does.
func TestReliableRefusals(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	n := 0
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	type attempt struct {
		tag  Tag
		size int
		end  error
	}
	tries := []*attempt{
		{1, 10, nil},
		{9, 10, nil},
		{1, 20, nil},
		{8, 20, nil},
		{1, 9000, nil},
		{9, 9000, nil},
		{8, 1200, nil},
		{1, 30, nil},
		{9, 5, nil},
	}
	for _, a := range tries {
		r.send(ep, a.tag, a.size, &a.end)
	}
	put := errNotEnded
	f, err := ep.PreparePut(make([]byte, 5000), 77, 0)
	if err != nil {
		t.Fatal(err)
	}
	f.OnDone = func(_ *Fragment, err error) { put = err }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	if err := ep.SendImmediate(ep.Now(), 9, nil); err != nil && !errors.Is(err, ErrAgain) {
		t.Fatal(err)
	}
	r.run(time.Second)
	for i, a := range tries {
		if a.tag == 1 && a.end != nil || a.tag != 1 && !errors.Is(a.end, ErrNoHandler) {
			t.Errorf("send %d, tag %d, %d bytes: %v", i, a.tag, a.size, a.end)
		}
	}
	if !errors.Is(put, ErrRemoteAccess) || n != 4 || !ep.Connected() {
		t.Errorf("put: %v; %d delivered; %v", put, n, ep.Err())
	}
	if err := r.mods[1].CheckIdle(); err != nil {
		t.Error(err)
	}
}

// Fragments for which the receiver has no memory are sent anew, before the goodbye behind them.
func TestReliableMemory(t *testing.T) {
	small := relyConfig()
	small.FragmentBytesMax, small.ReassemblyBytesMax = 100_000, 100_000
	r := newRelied(t, sim.Config{}, small, small, small, small)
	n := 0
	if err := r.mods[0].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	var eps []*Endpoint
	for i := range 3 {
		eps = append(eps, r.connect(i+1, 0))
	}
	const each = 5
	ends := make([]error, 3*each)
	flushed := []error{errNotEnded, errNotEnded, errNotEnded}
	for i, ep := range eps {
		for j := range each {
			r.send(ep, 1, 90_000+j, &ends[i*each+j])
			if j == each/2 {
				ep.Flush(ep.Now(), func(err error) {
					if flushed[i] = err; ends[i*each] != nil || ends[i*each+j] != nil {
						t.Error("flushed before it ended")
					}
				})
			}
		}
		ep.Close(ep.Now())
	}
	r.run(5 * time.Second)
	for i, err := range append(ends, flushed...) {
		if err != nil {
			t.Errorf("send %d: %v", i, err)
		}
	}
	anew := uint64(0)
	for _, m := range r.mods {
		anew += counter(m, CntRetransmitNack)
	}
	if n != len(ends) || anew == 0 {
		t.Errorf("%d of %d delivered, %d sent anew", n, len(ends), anew)
	}
}

// A fragment for which the receiver has no memory, because a third peer holds it that stands still,
// is sent anew at growing pauses, beside which small ones go on; it arrives when there is memory.
func TestReliableAnewPauses(t *testing.T) {
	small := relyConfig()
	small.FragmentBytesMax, small.ReassemblyBytesMax = 1_000_000, 1_000_000
	// After a packet's worth of small messages it is the turn of the large one.
	small.limits.QuantumBytes = 1
	r := newRelied(t, sim.Config{}, small, small, small)
	large, tiny := 0, 0
	const tinyBytes = 500
	if err := r.mods[0].Handle(1, func(_ *Endpoint, _ Tag, data []byte) {
		if len(data) > tinyBytes {
			large++
		} else {
			tiny++
		}
	}); err != nil {
		t.Fatal(err)
	}
	third, honest := r.connect(1, 0), r.connect(2, 0)
	var thirdEnd, end error
	r.send(third, 1, 900_000, &thirdEnd)
	for i := 0; counter(r.mods[0], CntRecvChunk) < 3 && i < 10_000; i++ {
		r.run(time.Microsecond)
	}
	r.nodes[1].Pause(time.Hour)
	r.send(honest, 1, 500_000, &end)
	const words = 20
	var said [words]error
	for i := range said {
		r.run(50 * time.Millisecond)
		if anew := counter(r.mods[2], CntRetransmitNack); anew > 50 {
			t.Fatalf("sent anew %d times in %d ms", anew, 50*(i+1))
		}
		r.send(honest, 1, tinyBytes, &said[i])
	}
	r.run(5 * time.Millisecond)
	if tiny != words {
		t.Errorf("%d of %d small messages came beside a large one that pauses", tiny, words)
	}
	if anew := counter(r.mods[2], CntRetransmitNack); anew < 5 || large > 0 {
		t.Errorf("sent anew %d times in a second, %d delivered", anew, large)
	}
	r.run(10 * time.Second) // the third is given up
	if end != nil || large != 1 {
		t.Errorf("the fragment ended with %v, %d were delivered", end, large)
	}
}

// Where no trains are made of datagrams the chunks of a fragment are as few as they can be, and of
// one size, in whole cache lines, but for the last.
func TestReliableEvenChunks(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	if err := r.mods[1].Handle(7, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	room := ep.MTUBytes() - frag.ChunkHeaderBytes
	for _, size := range []int{room + 100, 2 * room, 2*room + 1, 5*room - 17, 6 * room} {
		var got error
		r.sent = nil
		r.send(ep, 7, size, &got)
		r.run(time.Second)
		var chunks []int
		for i := range r.sent {
			if h := &r.sent[i]; h.Kind == frag.KindChunk {
				chunks = append(chunks, int(h.PayloadLen))
			}
		}
		if got != nil || len(chunks) != (size+room-1)/room {
			t.Fatalf("%d bytes: %v, chunks of %d", size, got, chunks)
		}
		last := len(chunks) - 1
		for i, n := range chunks {
			if n != chunks[0] && i < last || n%cacheLineBytes != 0 && n != room && i < last ||
				chunks[0]-n > len(chunks)*cacheLineBytes {
				t.Errorf("%d bytes in chunks of %d", size, chunks)
				break
			}
		}
	}
}
