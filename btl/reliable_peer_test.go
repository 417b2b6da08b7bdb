package btl

import (
	"errors"
	"testing"
	"time"

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
	if most := ep.snd.InFlight() + ep.snd.Room(); n != count || most < 5*small.Rules.WindowPackets {
		t.Errorf("%d of %d delivered; %d credits, too few to prove anything", n, count, most)
	}
}

// A peer whose end vanishes before it has confirmed the connection, and that then connects anew, is
// given up in time: that the endpoint is superseded puts off neither its questions nor their count.
func TestReliableSupersededUnconfirmed(t *testing.T) {
	cfg := relyConfig()
	cfg.PeerTimeout, cfg.CloseTimeout = time.Second, 700*time.Millisecond
	r := newRelied(t, sim.Config{}, cfg, cfg)
	ep, err := r.mods[0].Connect(r.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	old := true // no word of the peer's first end but the answers to the probes
	r.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		var h frag.Header
		if _, err := frag.Decode(d.Data, &h); err != nil {
			t.Error(err)
		}
		fromPeer := d.From.Node == 1
		mute := fromPeer && h.Conn == ep.tag && !(old && h.Kind == frag.KindHelloAck && !ep.Connected())
		return sim.Verdict{Drop: mute}
	})
	r.run(10 * time.Millisecond)
	if !ep.Connected() || ep.hs == nil || ep.hs.confirmed {
		t.Fatal("not as it should be: connected without being confirmed")
	}
	heard, end := ep.heardAt, error(nil)
	r.mods[0].OnEndpoint(func(e *Endpoint, _ Event, err error) {
		if e == ep {
			end = err
			if late := e.m.awake.Sub(heard) - cfg.PeerTimeout; late > cfg.PeerTimeout/4 {
				t.Errorf("given up %v later than its time", late)
			}
		}
	})
	old = false
	r.mods[1].slots[0].Abort()
	r.run(600 * time.Millisecond)
	if _, err := r.mods[1].Connect(r.mods[0].Name()); err != nil {
		t.Fatal(err)
	}
	r.run(10 * time.Millisecond)
	if !ep.superseded {
		t.Fatal("not as it should be: the peer has not connected anew")
	}
	r.run(2 * time.Second)
	if !errors.Is(end, ErrPeerDead) {
		t.Error("ended with", end)
	}
}
