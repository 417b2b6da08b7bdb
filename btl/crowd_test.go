package btl

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// oneHost is a domain whose endpoints all stand on one host, as it says.
type oneHost struct{ fabric.Domain }

func (oneHost) ParseAddress(string) (first, second []byte, err error) {
	return nil, nil, fabric.ErrBadName
}
func (oneHost) FormatName([]byte) string { return "host:1" }
func (oneHost) Host(name []byte) []byte  { return name[:0] }

// What one host may open is bounded, without being asked for; what this side opens is not.
func TestPeersPerHost(t *testing.T) {
	for _, c := range []struct{ peersMax, asked, want int }{
		{0, 0, 1024}, {16, 0, 256}, {1 << 20, 0, 1 << 18}, {0, 7, 7}, {0, -5, -1},
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
