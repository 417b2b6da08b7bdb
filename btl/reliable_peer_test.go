package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/btl/internal/peer"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/frag"
)

// Nothing but the credits bounds what a reliable endpoint sends: its window may be smaller than the
// share of them after which the peer sends an ACK unasked.
func TestReliableSmallWindow(t *testing.T) {
	small, large := relyConfig(), relyConfig()
	small.Rules.WindowPackets = 16
	large.RecvDepth = 1024
	r := newRelied(t, sim.Config{}, small, large)
	n := 0
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	const count = 30
	for i := range count {
		end := errNotEnded
		r.send(ep, 1, 90_000, &end)
		if r.run(100 * time.Millisecond); end != nil {
			t.Fatalf("send %d: %v", i, end)
		}
	}
	if most := flying(ep) + ep.c.Snd.Room(); n != count ||
		most < 5*small.Rules.WindowPackets {
		t.Errorf("%d of %d delivered; %d credits, too few to prove anything", n, count, most)
	}
}

// A peer whose end vanishes, and that then connects anew, is given up in time: that the endpoint is
// superseded puts off neither its questions nor their count. So it is for one that the peer has not
// confirmed, and for one that waits for an answer.
func TestReliableSuperseded(t *testing.T) {
	for _, confirmed := range []bool{false, true} {
		cfg := relyConfig()
		cfg.PeerTimeout, cfg.CloseTimeout = time.Second, 700*time.Millisecond
		r := newRelied(t, sim.Config{}, cfg, cfg)
		ep, err := r.mods[0].Connect(r.mods[0].Now(), r.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		probed := false // then no word of the peer's first end arrives
		r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
			var h frag.Header
			if _, err := frag.Decode(d.Data, &h); err != nil {
				t.Error(err)
			}
			probed = probed || ep.Connected() && (!confirmed || ep.c.Snd.Open())
			return sim.Verdict{Drop: d.From.Node == 1 && h.Conn == tagOf(ep) &&
				(probed || !confirmed && h.Kind != frag.KindHelloAck && h.Kind != frag.KindRetry)}
		})
		r.run(10 * time.Millisecond)
		if !ep.Connected() || (ep.c.ID.Handshake == nil) != confirmed {
			t.Fatalf("not as it should be: connected: %v", ep.Connected())
		}
		if confirmed {
			if err := ep.SendImmediate(ep.Now(), 1, nil); err != nil {
				t.Fatal(err)
			}
		}
		quiet, end := ep.c.Life.Quiet(ep.c.All.Clock.Unpaused), error(nil)
		heard := ep.c.All.Clock.Unpaused.Add(-quiet)
		r.mods[0].OnEndpoint(func(e *Endpoint, _ Event, err error) {
			if e != ep {
				return
			}
			end = err
			if late := e.mod().all.Clock.Unpaused.Sub(heard) - cfg.PeerTimeout; late > cfg.PeerTimeout/4 {
				t.Errorf("confirmed %v: given up %v later than its time", confirmed, late)
			}
		})
		endpointOf(r.mods[1].all.Peers.At(0)).Abort()
		r.run(800 * time.Millisecond)
		if _, err := r.mods[1].Connect(r.mods[1].Now(), r.mods[0].Name()); err != nil {
			t.Fatal(err)
		}
		if r.run(10 * time.Millisecond); !ep.c.Life.Superseded {
			t.Fatal("not as it should be: the peer has not connected anew")
		}
		want := ErrPeerDead
		if confirmed {
			want = ErrPeerClosed // for it was heard elsewhere
		}
		if r.run(3 * time.Second); !errors.Is(end, want) {
			t.Errorf("confirmed %v: ended with %v, want %v", confirmed, end, want)
		}
	}
}

// A chunk that is not the next one of its fragment is found out where it comes.
func TestReliableChunkMissing(t *testing.T) {
	for _, missing := range []int{0, 2} {
		r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
		var lost error
		r.mods[1].OnEndpoint(func(_ *Endpoint, _ Event, err error) { lost = err })
		ep := r.connect(0, 1)
		if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
			t.Fatal(err)
		}
		chunks := 0
		r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
			if frag.Kind(d.Data[1]&15) != frag.KindChunk {
				return sim.Verdict{}
			}
			chunks++ // the last one, which is counted, does not come
			return sim.Verdict{Drop: chunks == missing+1 || chunks > missing+2}
		})
		var end error
		r.send(ep, 1, 20_000, &end)
		if r.run(10 * time.Millisecond); !errors.Is(lost, ErrLost) || chunks < 10 {
			t.Errorf("chunk %d of %d lost: %v", missing, chunks, lost)
		}
	}
}

// Nothing is sent before the peer's first ACK, whatever its Hello promised.
func TestReliableFirstAck(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	deaf := true
	r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: deaf && frag.Kind(d.Data[1]&15) == frag.KindAck}
	})
	n := 0
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	var end error
	r.send(ep, 1, 10, &end)
	r.run(100 * time.Millisecond)
	for i := range r.sent {
		if h := &r.sent[i]; h.Kind != frag.KindAck && h.Tag != frag.TagVoid {
			t.Errorf("a %v was sent without an ACK", h.Kind)
		}
	}
	deaf = false // a question brings one
	if r.run(4 * time.Second); n != 1 || end != nil {
		t.Errorf("%d delivered, ended with %v", n, end)
	}
}

// A peer that has said Hello with the endpoint's tag, but is not established itself, would drop a
// question that has a number, and miss it in its count: it is asked by Hellos.
func TestReliableAskedTooEarly(t *testing.T) {
	cfg := relyConfig()
	cfg.PeerTimeout = 200 * time.Millisecond
	r := newRelied(t, sim.Config{}, cfg, cfg)
	n := 0
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { n++ }); err != nil {
		t.Fatal(err)
	}
	deaf, questions := true, 0 // node 1 hears no answer to its Hellos on the data channel
	r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		var h frag.Header
		if _, err := frag.Decode(d.Data, &h); err != nil {
			t.Error(err)
		}
		if deaf && h.Kind == frag.KindFrag && h.Tag == frag.TagVoid {
			questions++
		}
		return sim.Verdict{
			Drop: deaf && h.Kind == frag.KindHelloAck && d.From.Node == 0 && d.From.Index == 1,
		}
	})
	var eps [2]*Endpoint
	for i, m := range r.mods {
		var err error
		if eps[i], err = m.Connect(m.Now(), r.mods[1-i].Name()); err != nil {
			t.Fatal(err)
		}
	}
	r.run(50 * time.Millisecond)
	if !eps[0].Connected() || eps[0].c.ID.Handshake != nil || eps[1].Connected() {
		t.Fatalf("not as it should be: %t, %t", eps[0].Connected(), eps[1].Connected())
	}
	var end error
	r.send(eps[0], 1, 10, &end)
	r.run(500 * time.Millisecond)
	if questions != 0 || eps[0].Err() != nil {
		t.Errorf("%d questions, %v", questions, eps[0].Err())
	}
	deaf = false
	if r.run(2 * time.Second); n != 1 || end != nil {
		t.Errorf("%d delivered, ended with %v", n, end)
	}
}

// A fragment in chunks is confirmed as soon as it is here, not after the delay of ACKs: its memory
// is lent until then.
func TestReliableFragmentConfirmed(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	if err := r.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {}); err != nil {
		t.Fatal(err)
	}
	ep := r.connect(0, 1)
	for _, size := range []int{4000, 100} { // few packets, none of which renews credits
		var end error
		r.send(ep, 1, size, &end)
		at := r.nw.Now()
		for end != nil && r.nw.Now().Sub(at) < time.Millisecond {
			r.run(time.Microsecond)
		}
		took, delay := r.nw.Now().Sub(at), r.mods[1].Config().Rules.AckDelay
		if end != nil || (took < delay) != (size > 1000) {
			t.Errorf("%d bytes are confirmed after %v (%v), an ACK may wait for %v", size, took, end,
				delay)
		}
	}
}

// stuckPost is a fabric endpoint that takes nothing to be sent while it is full.
type stuckPost struct {
	fabric.Endpoint
	full bool
}

func (s *stuckPost) Post(sends []fabric.Send) (int, error) {
	if s.full {
		return 0, fabric.ErrAgain
	}
	return s.Endpoint.Post(sends)
}

// A module whose last confirmation has not left yet is not drained: it goes by the data channel,
// and a program that ends now would leave its peer in the dark.
func TestReliableDrained(t *testing.T) {
	r := newRelied(t, sim.Config{}, relyConfig(), relyConfig())
	a, m := r.connect(0, 1), r.mods[1]
	out := &stuckPost{full: true}
	m.all.Port.Data.Interpose(func(ep fabric.Endpoint) fabric.Endpoint {
		out.Endpoint = ep
		return out
	})
	closed := errNotEnded
	r.mods[0].OnEndpoint(func(_ *Endpoint, _ Event, err error) { closed = err })
	a.Close(a.Now())
	for _, n := range r.nodes {
		n.Kick()
	}
	for range 100 {
		r.nw.RunUntil(r.nw.Now().Add(time.Microsecond))
	}
	if b := endpointOf(m.all.Peers.At(0)); b == nil || b.c.ID.State != peer.StateLingering ||
		len(m.all.Port.Data.Batch) != 1 {
		t.Fatalf("not as it should be: %d packets wait", len(m.all.Port.Data.Batch))
	}
	if m.Drained() {
		t.Error("drained, and the confirmation of the goodbye has not left")
	}
	out.full = false
	if r.run(time.Millisecond); !m.Drained() || closed != nil {
		t.Errorf("drained: %v; the peer closed with %v", m.Drained(), closed)
	}
}

// A path whose round trip is longer than the time between two questions makes no end of them: what
// was sent is confirmed, and then nothing is in flight.
func TestReliableLongPath(t *testing.T) {
	cfg := relyConfig()
	cfg.PeerTimeout, cfg.KeepAlive = 160*time.Millisecond, -1
	for _, delay := range []time.Duration{23 * time.Millisecond, 50 * time.Millisecond} {
		r := newRelied(t, sim.Config{}, cfg, cfg)
		for i, from := range r.nodes {
			r.nw.SetPath(from, r.nodes[1-i], sim.Path{Delay: delay})
		}
		ep, err := r.mods[0].Connect(r.mods[0].Now(), r.mods[1].Name())
		if err != nil {
			t.Fatal(err)
		}
		if r.run(time.Second); !ep.Connected() {
			t.Fatal("not connected")
		}
		if err := ep.SendImmediate(ep.Now(), 1, nil); err != nil {
			t.Fatal(err)
		}
		r.run(3 * time.Second)
		st := r.mods[0].Stats()
		if n := st.Get(CntAsked); flying(ep) != 0 || n == 0 || n > 12 {
			t.Errorf("%v one way: asked %d times, %d packets in flight", delay, n, flying(ep))
		}
	}
}

// A peer that says other things all the time, and did not answer a question, is asked again.
func TestReliableAskedAgain(t *testing.T) {
	cfg, chatty := relyConfig(), relyConfig()
	cfg.PeerTimeout, cfg.KeepAlive = 160*time.Millisecond, -1
	chatty.PeerTimeout, chatty.KeepAlive = time.Second, 10*time.Millisecond
	r := newRelied(t, sim.Config{}, cfg, chatty)
	ep := r.connect(0, 1)
	unheard := true
	r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: unheard && d.From.Node == 1 && frag.Kind(d.Data[1]&15) == frag.KindAck}
	})
	if err := ep.SendImmediate(ep.Now(), 1, nil); err != nil {
		t.Fatal(err)
	}
	r.run(100 * time.Millisecond)
	if unheard = false; flying(ep) == 0 {
		t.Fatal("not as it should be: all is confirmed")
	}
	if r.run(time.Second); flying(ep) != 0 || !ep.Connected() {
		t.Errorf("connected %t, %d packets in flight", ep.Connected(), flying(ep))
	}
}
