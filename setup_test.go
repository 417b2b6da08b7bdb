package gobtl

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// gateLab is a module behind a gate, and other modules, on a given clock.
type gateLab struct {
	t       *testing.T
	gate    gate
	verdict btl.Verdict // the latest one of the gate
	asks    int         // how often the gate was asked
	modules []*btl.Module
	now     btl.Time
}

func newGateLab(t *testing.T, modules int) *gateLab {
	t.Helper()
	network := mem.New(mem.Config{})
	infos, err := network.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		t.Fatal(err)
	}
	k := &gateLab{t: t}
	for range modules {
		var cfg btl.Config
		sizes, err := cfg.DomainConfig(infos[0])
		if err != nil {
			t.Fatal(err)
		}
		domain, err := network.Open(sizes)
		if err != nil {
			t.Fatal(err)
		}
		m, err := btl.Open(domain, cfg)
		if err != nil {
			t.Fatal(err)
		}
		k.modules, k.now = append(k.modules, m), max(k.now, m.Now())
		t.Cleanup(func() { _ = m.Close() })
	}
	k.modules[0].Admit(func(r btl.Request) btl.Verdict {
		k.asks++
		k.verdict = k.gate.admit(r)
		return k.verdict
	})
	return k
}

// until drives all modules until a condition holds.
func (k *gateLab) until(what string, holds func() bool) {
	k.t.Helper()
	for end := k.now.Add(10 * time.Second); !holds(); {
		if k.now = k.now.Add(50 * time.Microsecond); k.now > end {
			k.t.Fatalf("%s: not after 10 s", what)
		}
		for _, m := range k.modules {
			if _, err := m.Progress(k.now); err != nil {
				k.t.Fatal(err)
			}
		}
	}
}

// ask makes a module connect to the one behind the gate, and returns when the gate was asked.
func (k *gateLab) ask(m *btl.Module) *btl.Endpoint {
	k.t.Helper()
	before := k.asks
	ep, err := m.Connect(k.now, k.modules[0].Name())
	if err != nil {
		k.t.Fatal(err)
	}
	k.until("a request", func() bool { return k.asks > before })
	return ep
}

// A peer that asks and gives up again and again takes no memory, and no place of another peer that
// waits until the gate is open.
func TestGateGivenUp(t *testing.T) {
	const times, most = 4200, 2 * gateAsksMin
	k := newGateLab(t, 4)
	early := k.ask(k.modules[1])
	for i := range times {
		k.ask(k.modules[2]).Abort()
		if n := len(k.gate.asked); n > most {
			t.Errorf("%d of %d requests that were given up are stored, at most %d", n, i+1, most)
			break
		}
	}
	late := k.ask(k.modules[3])
	if k.verdict != btl.Keep(btl.KeepMax) {
		t.Errorf("the peer does not wait for the gate: %+v", k.verdict)
	}
	k.gate.lift(k.now)
	k.until("connected", func() bool { return early.Connected() && late.Connected() })
}
