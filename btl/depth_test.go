package btl

import (
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// depths is a domain that notes the depths with which its endpoints are opened.
type depths struct {
	fabric.Domain
	opened *[]fabric.EndpointConfig
}

func (d depths) OpenEndpoint(cfg fabric.EndpointConfig) (fabric.Endpoint, error) {
	*d.opened = append(*d.opened, cfg)
	return d.Domain.OpenEndpoint(cfg)
}

// The command channel may have shorter queues than the data channel. The arena is smaller by the
// difference, and small and large fragments arrive under loss.
func TestCommandDepth(t *testing.T) {
	cfg := smallConfig()
	info := fabric.Info{MTUBytes: 1472}
	before, err := cfg.DomainConfig(info)
	if err != nil {
		t.Fatal(err)
	}
	cfg.CommandDepth = 16
	after, err := cfg.DomainConfig(info)
	if err != nil {
		t.Fatal(err)
	}
	if saved := before.Buffers - after.Buffers; saved != cfg.RecvDepth-16 {
		t.Errorf("the arena is smaller by %d buffers, want %d", saved, cfg.RecvDepth-16)
	}
	var opened []fabric.EndpointConfig
	l := newLab(t, mem.Config{}, 0, cfg)
	for range 2 {
		l.add(cfg, "")
	}
	l.wrap = func(d fabric.Domain) fabric.Domain { return depths{d, &opened} }
	spare := l.open(cfg)
	t.Cleanup(func() { _ = spare.Close() })
	command, data := opened[0], opened[1]
	if command.RxDepth != 16 || command.TxDepth != 16 || data.RxDepth != cfg.RecvDepth ||
		data.TxDepth != 0 {
		t.Errorf("opened with %+v and %+v", command, data)
	}
	tr := newTraffic(t, testenv.Seed(t, 7), 1)
	mustHandleTag(t, l.mods[1], 1, tr.receive)
	ep, _ := l.pair()
	l.chaos(chaos{loss: 0.05, dup: 0.02, hold: 0.05}, tr.rng.Uint64())
	for range 60 {
		for tr.send(ep, drawSize(tr.rng, 20_000)) && tr.rng.IntN(4) > 0 {
			continue
		}
		for range 20 {
			l.step(50 * time.Microsecond)
			l.chaosStep()
		}
	}
	l.calm()
	l.until("all delivered", 50*time.Microsecond, 10*time.Second, tr.finished)
	tr.verify()
}
