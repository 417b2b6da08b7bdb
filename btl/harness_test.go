package btl

import (
	"testing"
	"time"

	"go.uber.org/goleak"

	"gobtl/fabric"
	"gobtl/fabric/mem"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// bench is a set of modules on one in-process network, driven in virtual time by the test.
type bench struct {
	tb   testing.TB
	net  *mem.Network
	mods []*Module
	now  Time
	wrap func(fabric.Domain) fabric.Domain // put between a module and its domain; may be nil
}

func newBench(tb testing.TB, net mem.Config, n int, cfg Config) *bench {
	tb.Helper()
	b := &bench{tb: tb, net: mem.New(net), now: 1}
	for range n {
		b.mods = append(b.mods, b.open(cfg))
	}
	tb.Cleanup(func() {
		for _, m := range b.mods {
			if err := m.Close(); err != nil {
				tb.Errorf("close: %v", err)
			}
		}
	})
	return b
}

func (b *bench) open(cfg Config) *Module {
	b.tb.Helper()
	infos, err := b.net.Provider().GetInfo(fabricHints)
	if err != nil || len(infos) == 0 {
		b.tb.Fatalf("mem provider: %v", err)
	}
	dc, err := cfg.DomainConfig(infos[0])
	if err != nil {
		b.tb.Fatal(err)
	}
	dom, err := b.net.Open(dc)
	if err != nil {
		b.tb.Fatal(err)
	}
	if b.wrap != nil {
		dom = b.wrap(dom)
	}
	m, err := Open(dom, cfg)
	if err != nil {
		b.tb.Fatal(err)
	}
	return m
}

// step gives every module one pass and checks its state.
func (b *bench) step(d time.Duration) {
	b.tb.Helper()
	b.now = b.now.Add(d)
	for _, m := range b.mods {
		if m.closed {
			continue
		}
		if _, err := m.Progress(b.now); err != nil {
			b.tb.Fatalf("progress: %v", err)
		}
		if err := m.Check(); err != nil {
			b.tb.Fatalf("after %v: %v", b.now, err)
		}
	}
}

// until steps by d until cond holds, at most for limit of virtual time.
func (b *bench) until(what string, d, limit time.Duration, cond func() bool) {
	b.tb.Helper()
	for end := b.now.Add(limit); !cond(); {
		if b.now >= end {
			b.tb.Fatalf("not within %v: %s", limit, what)
		}
		b.step(d)
	}
}

// connect returns the endpoint of module i to module j once it is connected.
func (b *bench) connect(i, j int) *Endpoint {
	b.tb.Helper()
	ep, err := b.mods[i].Connect(b.now, b.mods[j].Name())
	if err != nil {
		b.tb.Fatal(err)
	}
	b.until("connected", 10*time.Microsecond, time.Second, func() bool {
		return ep.Connected() && ep.c.ID.Handshake == nil && !b.opening()
	})
	return ep
}

// opening says whether somebody still waits for the answer to the first Ping of a connection.
func (b *bench) opening() bool {
	for _, m := range b.mods {
		for _, ep := range m.endpoints() {
			if ep != nil && ep.Connected() && !ep.c.ID.Counted && ep.c.Path.FirstProbePending() {
				return true
			}
		}
	}
	return false
}

func mustHandleTag(t *testing.T, m *Module, tag Tag, h Handler) {
	t.Helper()
	if err := m.Handle(tag, h); err != nil {
		t.Fatal(err)
	}
}

// counted returns a copy of the module's counters as they are now, published or not.
func (m *Module) counted() *Stats { return &Stats{counters: *m.all.Counters()} }
