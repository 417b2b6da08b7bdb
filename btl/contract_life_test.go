package btl

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/internal/seq"
	"gobtl/reliability"
)

// Rule 9: a path that carries small packets only is noticed in the time of a dead peer, however
// much is heard of the peer and acknowledged by it.
func TestContract09SmallPacketsOnly(t *testing.T) {
	for _, profile := range reliability.Profiles() {
		cfg := smallConfig()
		cfg.PeerTimeout, cfg.Profile = time.Second, profile
		l := newLab(t, mem.Config{}, 2, cfg)
		for _, m := range l.mods {
			m.Handle(1, func(*Endpoint, Tag, []byte) {})
		}
		a, b := l.pair()
		l.settle(time.Second)
		small := 0
		l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
			if len(pkt) > 1000 {
				return mem.Drop
			}
			small++
			return mem.Deliver
		})
		told, start := errPending, l.now
		f, err := a.Prepare(1, make([]byte, 20_000))
		if err != nil {
			t.Fatal(err)
		}
		f.Signal, f.OnDone = true, func(_ *Fragment, err error) { told = err }
		if _, err := a.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
		for l.now < start.Add(3*time.Second) && a.Err() == nil {
			if err := b.SendImmediate(l.now, 1, []byte("I live")); err != nil && b.Err() == nil &&
				!errors.Is(err, ErrAgain) {
				t.Fatal(err)
			}
			_ = a.SendImmediate(l.now, 1, []byte("and I")) // as long as there is room
			for range 10 {
				l.step(time.Millisecond)
			}
		}
		took := l.now.Sub(start)
		l.step(time.Millisecond)
		if !errors.Is(told, ErrPeerDead) && !errors.Is(told, ErrNarrow) || took < time.Second ||
			took > 1400*time.Millisecond || small < 100 {
			t.Errorf("%s: after %v and %d small packets: %v", profile, took, small, told)
		}
	}
}

// Rule 7: two peers that die inside of a large message do not keep its memory from a third one for
// longer than it takes to find out, though nobody is asked for a sign of life without a reason.
func TestContract07MemoryOfTheDead(t *testing.T) {
	for _, silent := range []time.Duration{0, time.Minute} {
		cfg := smallConfig()
		cfg.PeerTimeout, cfg.KeepAlive = time.Second, -1
		cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<16, 1<<17
		l := newLab(t, mem.Config{}, 4, cfg)
		got := 0
		l.mods[3].Handle(1, func(*Endpoint, Tag, []byte) { got++ })
		var eps []*Endpoint
		for i := range 3 {
			eps = append(eps, l.connect(i, 3))
		}
		l.settle(time.Second)
		dead := l.mods[:2]
		for i, m := range dead {
			sendOrFail(t, eps[i], 1, make([]byte, 1<<16))
			for range 1 {
				if _, err := m.Progress(l.now.Add(1)); err != nil {
					t.Fatal(err)
				}
			}
		}
		all := l.mods
		l.mods = all[2:]
		for range 10 {
			l.step(10 * time.Microsecond)
		}
		for end := l.now.Add(silent); l.now < end; {
			l.step(50 * time.Millisecond)
		}
		if peersOf(all[3]) != 3 {
			t.Fatal("the dead were found out before anybody wanted anything")
		}
		start := l.now
		sendOrFail(t, eps[2], 1, make([]byte, 1<<16))
		l.until("delivered", time.Millisecond, 5*time.Second, func() bool { return got == 1 })
		if took := l.now.Sub(start); took > 1500*time.Millisecond {
			t.Errorf("silent for %v: the third had memory after %v", silent, took)
		}
		l.mods = all
	}
}

// Rule 7: what one packet announces costs next to nothing, however much it is: memory comes with
// what arrives.
func TestContract07Announced(t *testing.T) {
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 1<<30, 2<<30
	l, s := newStranger(t, cfg)
	m := l.mods[0]
	m.Handle(1, func(*Endpoint, Tag, []byte) {})
	s.connect()
	const most = 2 << 20
	for id := range uint32(2) {
		s.chunk(s.next+seq.Num(id), id, 1<<30, 0, make([]byte, s.room()))
		s.run(2)
		if n := m.all.Pool.ActiveBytes(); n == 0 || n > int64(id+1)*most {
			t.Errorf("%d announced: %d bytes of memory", id+1, n)
		}
	}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	s.chunk(s.next+2, 2, 1<<30, 0, make([]byte, s.room())) // beyond the limit
	s.run(2)
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > most {
		t.Errorf("one more: %d bytes were allocated", n)
	}
}

// Rule 7: peers that have crashed do not keep their places from others, who knock.
func TestContract07PlacesOfTheDead(t *testing.T) {
	for _, keepAlive := range []time.Duration{0, -1} {
		cfg := smallConfig()
		cfg.PeersMax, cfg.PeerTimeout, cfg.KeepAlive = 4, time.Second, keepAlive
		l := newLab(t, mem.Config{}, 7, cfg)
		for i := range 4 {
			l.connect(i+1, 0)
		}
		l.settle(time.Second)
		all := l.mods
		l.mods = []*Module{all[0], all[5], all[6]}
		for range 100 {
			l.step(10 * time.Millisecond)
		}
		start, tries := l.now, 0
		for {
			ep, err := all[5].Connect(l.now, all[0].Name())
			if err != nil {
				t.Fatal(err)
			}
			for tries++; !ep.Connected() && ep.Err() == nil; {
				l.step(time.Millisecond)
			}
			if ep.Connected() || l.now > start.Add(time.Minute) {
				break
			}
			l.step(100 * time.Millisecond)
		}
		if took := l.now.Sub(start); took > 3*time.Second {
			t.Errorf("a place after %v, %d tries", took, tries)
		}
		l.mods = all
	}
}
