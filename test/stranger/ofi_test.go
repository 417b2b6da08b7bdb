//go:build cgo

package stranger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	_ "gobtl/fabric/ofi"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

const patience = 30 * time.Second // enough for a machine that has other work

// The tags of the tests.
const (
	tagCheck   = 1 // a message whose bytes are checked and counted
	tagOther   = 2 // has a handler, too
	tagUnknown = 9 // has none
)

// module is the counterpart: a real module over ofi/udp, or over udp.
type module struct {
	*btl.Runner
	t      *testing.T
	name   []byte
	limits btl.Limits
	got    chan []byte
	events chan string
	eps    chan *btl.Endpoint // connected
	dirty  bool               // the test sends what must be dropped
}

func openModule(t *testing.T, cfg btl.Config) *module {
	t.Helper()
	return openModuleOn(t, "ofi/udp", cfg)
}

func openModuleOn(t *testing.T, provider string, cfg btl.Config) *module {
	t.Helper()
	infos, err := fabric.GetInfo(fabric.Hints{Provider: provider, Node: "127.0.0.1"})
	if err != nil || len(infos) == 0 {
		testenv.Missing(t, "needs libfabric's udp (Debian: libfabric-dev, libfabric-bin): %v", err)
	}
	buffers, err := cfg.DomainConfig(infos[0])
	must(t, err)
	domain, err := fabric.Open(infos[0], buffers)
	must(t, err)
	mod, err := btl.Open(domain, cfg)
	must(t, err)
	m := &module{
		t: t, name: mod.Name(), limits: mod.Limits(), got: make(chan []byte, 4096),
		events: make(chan string, 4096), eps: make(chan *btl.Endpoint, 64),
	}
	for _, tag := range []btl.Tag{tagCheck, tagOther} {
		must(t, mod.Handle(tag, func(_ *btl.Endpoint, _ btl.Tag, b []byte) {
			m.got <- bytes.Clone(b)
		}))
	}
	m.Runner = btl.NewRunner(mod, btl.RunnerConfig{Spin: -1, Park: time.Millisecond},
		func(ep *btl.Endpoint, ev btl.Event, err error) {
			if ev == btl.EventConnected {
				m.eps <- ep
				return
			}
			m.events <- fmt.Sprint(err)
		})
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), 100*time.Millisecond)
		defer cancel()
		_ = m.Runner.Close(ctx)
		st := m.Stats()
		if n := st.Unaccounted(); n != 0 {
			t.Errorf("%d packets are unaccounted for", n)
		}
		for _, c := range []btl.Counter{btl.CntDropMalformed, btl.CntDropAck, btl.CntAboveWindow} {
			if n := st.Get(c); n != 0 && !m.dirty {
				t.Errorf("the module counts %d in %v", n, c)
			}
		}
	})
	return m
}

func openPeer(t *testing.T, cfg Config) *Peer {
	t.Helper()
	p, err := Open(cfg)
	must(t, err)
	t.Cleanup(func() {
		for _, b := range p.Breaches() {
			t.Errorf("the module broke a rule: %s", b)
		}
		p.Close()
	})
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func within(t *testing.T) context.Context {
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

// receive waits for something.
func receive[T any](t *testing.T, from <-chan T, what string) (v T) {
	t.Helper()
	select {
	case v = <-from:
	case <-time.After(patience):
		t.Fatalf("waited in vain for %s", what)
	}
	return v
}

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); !ok(); time.Sleep(2 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("waited in vain until %s", what)
		}
	}
}

// pattern is a message that says which it is.
func pattern(n int) []byte {
	b := make([]byte, n)
	r := rand.New(rand.NewPCG(uint64(n), 7))
	for i := range b {
		b[i] = byte(r.Uint32())
	}
	return b
}

// pair is a stranger and a module that are connected.
type pair struct {
	m    *module
	p    *Peer
	c    *Conn
	ep   *btl.Endpoint
	msgs chan []byte // what the stranger has received
}

// connect opens both; the module begins if byModule.
func connect(t *testing.T, mcfg btl.Config, pcfg Config, byModule bool) *pair {
	t.Helper()
	pr := &pair{msgs: make(chan []byte, 4096)}
	conns := make(chan *Conn, 16)
	pcfg.OnMessage = func(_ *Conn, _ uint8, b []byte) { pr.msgs <- bytes.Clone(b) }
	pcfg.OnConn = func(c *Conn) { conns <- c }
	provider := orDefault(pcfg.Provider, "ofi/udp")
	pr.m, pr.p = openModuleOn(t, provider, mcfg), openPeer(t, pcfg)
	if byModule {
		ep, err := pr.m.Connect(within(t), pr.p.Name())
		must(t, err)
		receive(t, pr.m.eps, "the module's event")
		pr.ep, pr.c = ep, receive(t, conns, "the module's connection")
		return pr
	}
	c, err := pr.p.Dial(pr.m.name)
	must(t, err)
	must(t, c.Wait())
	pr.c, pr.ep = c, receive(t, pr.m.eps, "the stranger's connection")
	return pr
}

// sizes are all around the limits of a module and its peer, 0 to 1 MiB.
func sizes(pr *pair) []int {
	list := []int{0, 1, 100, 10000, 65535, 65536, 300001, 1 << 20}
	mtu := pr.c.sizes[data]
	for _, edge := range []int{
		pr.c.sizes[command] - headerBytes, mtu - headerBytes, mtu - headerBytes - 16,
		2 * (mtu - headerBytes - 16),
	} {
		list = append(list, edge-1, edge, edge+1)
	}
	return list
}

// exchange sends messages of all sizes both ways at once, and checks that each comes once, whole.
func exchange(t *testing.T, pr *pair) {
	t.Helper()
	list := sizes(pr)
	want := map[string]int{}
	ends := make([]<-chan error, 0, len(list))
	for _, n := range list {
		want[string(pattern(n))]++
		ends = append(ends, pr.c.Start(tagCheck, pattern(n)))
	}
	var wg sync.WaitGroup
	errs := make(chan error, len(list))
	ctx := within(t)
	wg.Go(func() {
		for _, n := range list {
			errs <- pr.m.Send(ctx, pr.ep, tagCheck, pattern(n))
		}
	})
	for i, end := range ends {
		if err := receive(t, end, fmt.Sprintf("the end of %d bytes", list[i])); err != nil {
			t.Fatalf("the stranger's %d bytes: %v", list[i], err)
		}
	}
	for i := range list {
		if err := receive(t, errs, "the module's end of a send"); err != nil {
			t.Fatalf("the module's %d bytes: %v", list[i], err)
		}
	}
	wg.Wait()
	for side, from := range map[string]chan []byte{"module": pr.m.got, "stranger": pr.msgs} {
		got := map[string]int{}
		for range list {
			got[string(receive(t, from, "a message at the "+side))]++
		}
		for b, n := range want {
			if got[b] != n {
				t.Errorf("%s: a message of %d bytes came %d times instead of %d", side, len(b), got[b], n)
			}
		}
		if len(from) != 0 {
			t.Errorf("%s: %d messages too many", side, len(from))
		}
	}
}

func TestExchange(t *testing.T) {
	t.Parallel()
	small := Config{MTUBytes: 700, CommandBytes: 256, WindowPackets: 64, Credit: 16}
	for name, tt := range map[string]struct {
		mod      btl.Config
		cfg      Config
		byModule bool
	}{
		"stranger begins":               {},
		"module begins":                 {byModule: true},
		"stranger begins, small limits": {cfg: small},
		"module begins, small limits":   {cfg: small, byModule: true},
		"module has small limits":       {mod: btl.Config{MTUBytes: 600, TinyBytes: 300}},
		"faults, stranger begins": {cfg: Config{Faults: Faults{
			Seed: 1, Loss: 0.03, Dup: 0.03, Delay: 0.05, DelayMax: 3 * time.Millisecond,
		}}},
		"faults, module begins": {byModule: true, cfg: Config{Faults: Faults{
			Seed: 2, Loss: 0.03, Dup: 0.03, Delay: 0.05, DelayMax: 3 * time.Millisecond,
		}}},
		"over udp, stranger begins": {cfg: Config{Provider: "udp"}},
		"over udp, module begins":   {cfg: Config{Provider: "udp"}, byModule: true},
		"over udp, large MTU":       {cfg: Config{Provider: "udp", MTUBytes: 65507}},
		"over udp, faults": {cfg: Config{Provider: "udp", Faults: Faults{
			Seed: 4, Loss: 0.03, Dup: 0.03, Delay: 0.05, DelayMax: 3 * time.Millisecond,
		}}},
		"numbers at the wrap": {
			mod: btl.Config{Random: countDown()}, cfg: Config{FirstSeq: 1<<32 - 20},
		},
		"one credit": {cfg: Config{Credit: 1, AckDelay: 100 * time.Microsecond}},
	} {
		t.Run(name, func(t *testing.T) {
			pr := connect(t, tt.mod, tt.cfg, tt.byModule)
			exchange(t, pr)
			if tt.cfg.Faults.Loss == 0 {
				return
			}
			st := pr.m.Stats()
			if pr.p.Count("lost") < 20 || pr.p.Count("resent") == 0 || st.Retransmits() == 0 ||
				pr.p.Count("duplicate") == 0 || st.Duplicates() == 0 {
				t.Errorf("lost %d, sent again %d and %d, duplicates %d and %d: too little to show much",
					pr.p.Count("lost"), pr.p.Count("resent"), st.Retransmits(),
					pr.p.Count("duplicate"), st.Duplicates())
			}
		})
	}
}

// countDown is a module's random source that puts its first number right before the wrap.
func countDown() func() uint64 {
	n := ^uint64(0)
	return func() uint64 { n -= 1<<32 + 1; return n }
}

func TestSimultaneous(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		msgs := make(chan []byte, 16)
		m := openModule(t, btl.Config{})
		p := openPeer(t, Config{
			OnMessage: func(_ *Conn, _ uint8, b []byte) { msgs <- bytes.Clone(b) },
			Faults:    Faults{Seed: seed, Delay: 0.5, DelayMax: time.Duration(seed+1) * time.Millisecond},
		})
		var c *Conn
		var err error
		var wg sync.WaitGroup
		wg.Go(func() { c, err = p.Dial(m.name) })
		ep, err2 := m.Connect(within(t), p.Name())
		wg.Wait()
		must(t, errors.Join(err, err2))
		must(t, c.Wait())
		must(t, c.Send(tagCheck, pattern(5000)))
		must(t, m.Send(within(t), ep, tagCheck, pattern(6000)))
		if a, b := receive(t, m.got, "a message"), receive(t, msgs, "one"); len(a) != 5000 ||
			len(b) != 6000 {
			t.Errorf("got %d and %d bytes", len(a), len(b))
		}
		time.Sleep(20 * time.Millisecond)
		st := m.Stats()
		conns := 0
		p.do(func() { conns = len(p.conns) })
		if st.Endpoints != 1 || conns != 1 {
			t.Errorf("%d and %d endpoints instead of one each", st.Endpoints, conns)
		}
	}
}
