package btl

import (
	"bytes"
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/frag"
)

// oneHost is a domain whose endpoints all stand on one host, as it says.
type oneHost struct{ fabric.Domain }

func (oneHost) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}
func (oneHost) FormatName([]byte) string { return "host:1" }
func (oneHost) Host(name []byte) []byte  { return name[:0] }

// What one host may open is bounded, without being asked for, and leaves room for other hosts
// however few peers a module may have. What this side opens is not bounded.
func TestPeersPerHost(t *testing.T) {
	for _, c := range []struct{ peersMax, asked, want int }{
		{0, 0, 1024},
		{16, 0, 14},
		{1, 0, 1},
		{256, 0, 224},
		{1 << 20, 0, 1 << 18},
		{0, 7, 7},
		{0, -5, -1},
	} {
		cfg, err := Config{PeersMax: c.peersMax, PeersPerHost: c.asked}.WithDefaults(
			fabric.Info{MTUBytes: 1472})
		if err != nil || cfg.PeersPerHost != c.want {
			t.Errorf("%+v: %d, %v", c, cfg.PeersPerHost, err)
		}
	}
	for _, most := range []int{2, -1} {
		cfg := smallConfig()
		cfg.PeersPerHost = most
		b := newBench(t, mem.Config{}, 0, cfg)
		b.wrap = func(d fabric.Domain) fabric.Domain { return oneHost{d} }
		for range 4 {
			b.mods = append(b.mods, b.open(cfg))
		}
		b.connect(1, 0)
		b.connect(2, 0)
		third, err := b.mods[3].Connect(b.now, b.mods[0].Name())
		if err != nil {
			t.Fatal(err)
		}
		b.until("decided", 10*time.Microsecond, time.Second, func() bool {
			return third.Connected() || third.Err() != nil
		})
		if refused := errors.Is(third.Err(), ErrRefused); refused != (most > 0) {
			t.Errorf("at most %d of a host: the third one is told %v", most, third.Err())
		}
	}
	cfg := smallConfig()
	cfg.PeersPerHost = 1
	b := newBench(t, mem.Config{}, 0, cfg)
	b.wrap = func(d fabric.Domain) fabric.Domain { return oneHost{d} }
	for range 4 {
		b.mods = append(b.mods, b.open(cfg))
	}
	for i := range 3 {
		b.connect(0, i+1)
	}
}

// townOfTwo is a domain whose endpoints stand on one host, but for those of one name.
type townOfTwo struct {
	oneHost
	elsewhere *[]byte
}

func (d townOfTwo) FormatName(name []byte) string {
	if bytes.Equal(name, *d.elsewhere) {
		return "elsewhere:1"
	}
	return "host:1"
}

func (d townOfTwo) Host(name []byte) []byte {
	if bytes.Equal(name, *d.elsewhere) {
		return name
	}
	return name[:0]
}

// A host that opens and never answers holds a quarter of the half-open endpoints: another one finds
// room. Without a bound for hosts the share is a half.
func TestHalfOpenPerHost(t *testing.T) {
	for _, c := range []struct{ perHost, most, want int }{
		{0, 8, 2}, {0, 3, 1}, {-1, 8, 4}, {-1, 2, 1},
	} {
		cfg := smallConfig()
		cfg.limits.HalfOpenMax, cfg.PeersPerHost = c.most, c.perHost
		cfg.HandshakeTimeout = 50 * time.Millisecond
		l := newLab(t, mem.Config{}, 0, cfg)
		var elsewhere []byte
		l.wrap = func(d fabric.Domain) fabric.Domain { return townOfTwo{oneHost{d}, &elsewhere} }
		l.mods = append(l.mods, l.open(cfg))
		l.wrap = nil
		m := l.mods[0]
		knock := func(s *script, tag uint64) {
			s.hello.Tag = tag
			s.meet()
			s.raw(0, s.packHello(frag.KindHello, 0, 0))
			s.run(4)
		}
		crowd, other := l.newScript(0), l.newScript(0)
		elsewhere = other.name[0]
		for i := range 10 {
			knock(crowd, uint64(i)+1)
		}
		if halfOpen(m) != c.want {
			t.Fatalf("%+v: one host holds %d half-open endpoints", c, halfOpen(m))
		}
		knock(other, 99)
		if want := min(c.want+1, c.most); halfOpen(m) != want {
			t.Errorf("%+v: %d half-open endpoints with the newcomer's, want %d", c, halfOpen(m),
				want)
		}
		l.idleFor(200 * time.Millisecond)
		if err := m.all.Peers.Census.Check(peersOf(m), 0); err != nil {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// manyHosts is a domain on whose network each endpoint of a script stands on a host of its own.
type manyHosts struct{ fabric.Domain }

func (manyHosts) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}
func (manyHosts) FormatName(name []byte) string { return string(name) + ":1" }
func (manyHosts) Host(name []byte) []byte       { return name }

// Four hosts (or four IPv6 networks of one customer) that open and never answer keep nobody else
// from connecting: the newcomer gets the place of their oldest.
func TestHalfOpenOfFourHosts(t *testing.T) {
	cfg := smallConfig()
	cfg.limits.HalfOpenMax = 8
	l := newLab(t, mem.Config{}, 0, cfg)
	l.wrap = func(d fabric.Domain) fabric.Domain { return manyHosts{d} }
	l.mods = append(l.mods, l.open(cfg), l.open(cfg))
	l.wrap = nil
	m := l.mods[0]
	var crowd []*script
	for range 4 {
		crowd = append(crowd, l.newScript(0))
	}
	tag := uint64(0)
	knock := func() {
		for _, s := range crowd {
			for range 2 {
				tag++
				s.hello.Tag = tag
				s.meet()
				s.raw(0, s.packHello(frag.KindHello, 0, 0))
				s.run(2)
			}
		}
	}
	knock()
	if halfOpen(m) != 8 {
		t.Fatalf("%d half-open endpoints", halfOpen(m))
	}
	a, err := l.mods[1].Connect(l.now, m.Name())
	if err != nil {
		t.Fatal(err)
	}
	for end := l.now.Add(4 * time.Second); l.now < end && !a.Connected() && a.Err() == nil; {
		l.step(10 * time.Millisecond)
		knock()
		if halfOpen(m) > 8 {
			t.Fatalf("%d half-open endpoints", halfOpen(m))
		}
	}
	if !a.Connected() {
		t.Errorf("an honest peer is kept out: %v", a.Err())
	}
	l.idleFor(4 * time.Second)
	if err := m.all.Peers.Census.Check(peersOf(m), 0); err != nil {
		t.Error(err)
	}
}
