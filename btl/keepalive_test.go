package btl

import (
	"testing"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/peer"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// firewall drops what comes from outside on a pair of addresses by which nothing has gone out for
// its timeout.
type firewall struct {
	l       *lab
	inside  map[string]bool
	timeout time.Duration
	last    map[string]Time
	dropped int
}

func (f *firewall) filter(src, dst []byte, _ []byte) mem.Verdict {
	if f.inside[string(src)] {
		f.last[string(src)+" "+string(dst)] = f.l.now
		return mem.Deliver
	}
	at, ok := f.last[string(dst)+" "+string(src)]
	if !ok || f.l.now.Sub(at) > f.timeout {
		f.dropped++
		return mem.Drop
	}
	return mem.Deliver
}

// A stateful firewall forgets each pair of ports by which the host inside sends nothing for 30 s.
// The host outside can still send large messages after a long silence, and also when only small
// ones have gone for long, which keep the pair of the command channel.
func TestKeepAliveOfEachChannel(t *testing.T) {
	for _, small := range []bool{false, true} {
		cfg := smallConfig()
		cfg.KeepAlive = 0 // the default
		l := newLab(t, mem.Config{}, 2, cfg)
		fw := &firewall{l: l, timeout: 30 * time.Second, last: map[string]Time{}}
		fw.inside = map[string]bool{string(l.mods[0].told[0]): true, string(l.mods[0].told[1]): true}
		l.net.SetFilter(fw.filter)
		got := 0
		for _, m := range l.mods {
			mustHandle(t, m, func() { got++ })
		}
		a, b := l.pair()
		l.settle(time.Second)
		sent := 0
		for range 3 * 600 { // 3 minutes
			for range 2 {
				l.step(50 * time.Millisecond)
			}
			if small && sent < 1000 {
				send(t, a, 8)
				sent++
			}
		}
		large := send(t, b, 3000)
		l.settle(time.Second)
		if *large != nil || got != sent+1 || fw.dropped > 0 {
			t.Errorf("small ones: %v: %v, %d of %d delivered, %d packets were dropped", small, *large,
				got, sent+1, fw.dropped)
		}
	}
}

// A question of a channel that gets lost is asked again long before the next one would be due.
func TestKeepAliveAsksAgain(t *testing.T) {
	cfg := smallConfig()
	cfg.KeepAlive, cfg.PeerTimeout = 4*time.Second, time.Second
	l := newLab(t, mem.Config{}, 2, cfg)
	a, _ := l.pair()
	l.settle(time.Second)
	data := string(l.mods[0].told[1])
	lost, again := Never, Never
	l.net.SetFilter(func(src, _ []byte, _ []byte) mem.Verdict {
		switch {
		case string(src) != data:
		case lost == Never:
			lost = l.now
			return mem.Drop
		case again == Never:
			again = l.now
		}
		return mem.Deliver
	})
	l.until("a question is lost, and asked again", 10*time.Millisecond, 10*time.Second, func() bool {
		return again != Never
	})
	if d := again.Sub(lost); d > cfg.KeepAlive/2 || a.Err() != nil {
		t.Errorf("asked again %v after the one that was lost (%v)", d, a.Err())
	}
}

// A peer that was silent for a while, and holds what others want, is asked for a sign of life at
// once, also where nobody is asked without traffic.
func TestSilentHolderIsAsked(t *testing.T) {
	cfg := smallConfig()
	cfg.KeepAlive, cfg.PeerTimeout = -1, time.Second
	l := newLab(t, mem.Config{}, 2, cfg)
	l.pair()
	l.settle(time.Second)
	hellos := 0
	l.net.SetFilter(func(_, _ []byte, pkt []byte) mem.Verdict {
		if kindOf(pkt) == frag.KindHello {
			hellos++
		}
		return mem.Deliver
	})
	for _, holds := range []bool{false, true} {
		for range 20 {
			l.step(50 * time.Millisecond)
		}
		l.mods[0].all.Rest.Stir()
		l.mods[0].all.Timers.Watches.AskSilent(liveness.Memory, func(*peer.Endpoint) bool {
			return holds
		})
		l.step(time.Millisecond)
		if (hellos > 0) != holds {
			t.Errorf("holds what others want: %v: asked %d times", holds, hellos)
		}
	}
}

// A stranger whose address has all its endpoints asks for a further one all the time. Nevertheless,
// a newcomer that finds no place has the silent peers asked, and gets the place of a dead one.
func TestPlaceOfDeadBesideCrowd(t *testing.T) {
	cfg := smallConfig()
	cfg.KeepAlive, cfg.PeerTimeout, cfg.PeersMax = -1, time.Second, 3
	cfg.limits.PeersPerAddress = 1
	l := newLab(t, mem.Config{}, 2, cfg)
	m, newcomer := l.mods[1], l.mods[0]
	crowd := l.newScript(1)
	lives := crowd.connect()
	own, first := crowd.conn, crowd.peerFirst
	for range 2 {
		l.newScript(1).connect() // and sends nothing more
	}
	crowd.hello.Tag, crowd.hello.Proven = crowd.hello.Tag+1, 0
	var ep *Endpoint
	for i := 0; i < 2000 && (ep == nil || !ep.Connected()); i++ { // at most 4 PeerTimeouts
		if i%400 == 0 {
			crowd.meet() // for a fresh cookie
		}
		if i%20 == 0 {
			crowd.conn = own
			crowd.ack(first - 1) // it lives
		}
		crowd.raw(0, crowd.packHello(frag.KindHello, 0, frag.ProbeCommand))
		if ep == nil || ep.Err() != nil {
			var err error
			if ep, err = newcomer.Connect(l.now, m.Name()); err != nil {
				t.Fatal(err)
			}
		}
		l.step(2 * time.Millisecond)
	}
	if !ep.Connected() || lives.Err() != nil {
		t.Errorf("the newcomer is connected: %v (%v), and the crowd's endpoint: %v", ep.Connected(),
			ep.Err(), lives.Err())
	}
}

// Keep-alives and their answers allocate nothing. A program that measures its own allocations may
// have idle peers.
func TestKeepAliveAllocatesNothing(t *testing.T) {
	cfg := smallConfig()
	cfg.KeepAlive, cfg.PeerTimeout = 200*time.Millisecond, time.Second
	b := newBench(t, mem.Config{}, 2, cfg)
	b.connect(0, 1)
	idle := func() {
		for range 100 { // 1 s
			b.now = b.now.Add(10 * time.Millisecond)
			for _, m := range b.mods {
				_, _ = m.Progress(b.now)
			}
		}
	}
	idle()
	before := counter(b.mods[1], CntRecvHandshake)
	if n := testing.AllocsPerRun(10, idle); n > 0 {
		t.Errorf("%v allocations a second", n)
	}
	if n := counter(b.mods[1], CntRecvHandshake) - before; n < 20 {
		t.Errorf("%d packets of keep-alives", n)
	}
}
