package stranger

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/btl/runner"
	"gobtl/fabric"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
)

// Handlers of the real side: tagKeep notes what comes, tagEcho sends it back.
const (
	tagKeep = 1
	tagEcho = 2
	tagNone = 9
)

// module is the other side: a module over UDP on loopback, driven by a Runner.
type module struct {
	t    *testing.T
	run  *runner.Runner
	name *name

	mu     sync.Mutex
	got    map[string]int // what came for tagKeep
	count  int
	events []string
	ends   map[*btl.Endpoint]error
	latest *btl.Endpoint   // connected last
	echoed <-chan struct{} // is closed when the latest echo that had to wait is sent
}

func realSide(t *testing.T, cfg btl.Config, before ...func(*btl.Module)) *module {
	t.Helper()
	return realAt(t, fabric.Hints{Provider: "udp", Node: "127.0.0.1"}, cfg, before...)
}

// realAt opens the real side at an address.
func realAt(t *testing.T, at fabric.Hints, cfg btl.Config, before ...func(*btl.Module)) *module {
	t.Helper()
	infos, err := fabric.GetInfo(at)
	check(t, err)
	dc, err := cfg.DomainConfig(infos[0])
	check(t, err)
	domain, err := fabric.Open(infos[0], dc)
	check(t, err)
	return realOver(t, domain, cfg, before...)
}

// realOver opens the real side over a domain.
func realOver(
	t *testing.T, domain fabric.Domain, cfg btl.Config, before ...func(*btl.Module),
) *module {
	t.Helper()
	m, err := btl.Open(domain, cfg)
	check(t, err)
	r := &module{t: t, got: map[string]int{}, ends: map[*btl.Endpoint]error{}}
	check(t, m.Handle(tagKeep, func(_ *btl.Endpoint, _ btl.Tag, b []byte) { r.keep(b) }))
	check(t, m.Handle(tagEcho, func(ep *btl.Endpoint, tag btl.Tag, b []byte) {
		r.mu.Lock()
		run := r.run // it drives before it is known here
		r.mu.Unlock()
		r.echo(run, ep, tag, b)
	}))
	for _, fn := range before {
		fn(m)
	}
	r.name, err = decodeName(m.Name())
	check(t, err)
	r.mu.Lock()
	r.run = runner.New(m, runner.Config{}, r.onEvent)
	r.mu.Unlock()
	t.Cleanup(func() {
		s := r.run.Stats()
		if s.Unaccounted() != 0 {
			t.Errorf("the real side cannot account for %d packets", s.Unaccounted())
		}
		ctx, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_ = r.run.Close(ctx) // the stranger does not answer any more
	})
	return r
}

// echo sends back what came, in a handler. What the Runner has no room for waits its turn outside.
func (r *module) echo(run *runner.Runner, ep *btl.Endpoint, tag btl.Tag, b []byte) {
	r.mu.Lock()
	before := r.echoed
	r.mu.Unlock()
	ctx := context.Background()
	if before == nil || closed(before) {
		if err := run.SendBuffered(ctx, ep, tag, b); !errors.Is(err, btl.ErrAgain) {
			return
		}
	}
	sent := make(chan struct{})
	r.mu.Lock()
	r.echoed = sent
	r.mu.Unlock()
	b = bytes.Clone(b)
	go func() {
		defer close(sent)
		if before != nil {
			<-before
		}
		_ = run.SendBuffered(ctx, ep, tag, b)
	}()
}

func closed(c <-chan struct{}) bool {
	select {
	case <-c:
		return true
	default:
		return false
	}
}

func (r *module) keep(b []byte) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.got[string(b)]++
	r.count++
}

func (r *module) onEvent(ep *btl.Endpoint, ev btl.Event, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.events = append(r.events, fmt.Sprint(ev, " ", err))
	if ev == btl.EventConnected {
		r.latest = ep
		return
	}
	r.ends[ep] = err
}

// end waits until an endpoint of the real side has ended, and returns why.
func (r *module) end(ep *btl.Endpoint) (err error) {
	r.t.Helper()
	eventually(r.t, "the end of the real side's endpoint", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		var ok bool
		err, ok = r.ends[ep]
		return ok
	})
	return err
}

// endpoint waits until a peer is connected, and returns its endpoint.
func (r *module) endpoint() (ep *btl.Endpoint) {
	r.t.Helper()
	eventually(r.t, "a connection", func() bool {
		r.mu.Lock()
		defer r.mu.Unlock()
		ep = r.latest
		return ep != nil
	})
	return ep
}

func (r *module) kept() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.count
}

// times is how often a message came.
func (r *module) times(text string) int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.got[text]
}

func (r *module) do(fn func(m *btl.Module) error) {
	r.t.Helper()
	check(r.t, r.run.Do(context.Background(), fn))
}

// expose exposes memory of the real side.
func (r *module) expose(mem []byte, rights btl.Rights) (g *btl.Region) {
	r.t.Helper()
	r.do(func(m *btl.Module) (err error) {
		g, err = m.Expose(mem, rights)
		return err
	})
	return g
}

func check(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// eventually waits for what must come, and for long.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("%s: did not come", what)
		}
	}
}

// stranger opens one that must see nothing that the document forbids.
func stranger(t *testing.T, opt options) *host {
	t.Helper()
	h, err := newHost(testenv.Seed(t, rand.Uint64()), opt)
	check(t, err)
	t.Cleanup(func() {
		h.stop()
		for _, w := range h.wrongs {
			t.Errorf("against the document: %s", w)
		}
	})
	return h
}

// draw makes a source of random numbers for a test.
func (h *host) draw() (dice *rand.Rand) {
	h.do(func() { dice = rand.New(rand.NewPCG(h.dice.Uint64(), 3)) })
	return dice
}

// to connects to the real side, and waits until that is done.
func (h *host) to(t *testing.T, r *module) *conn {
	t.Helper()
	c := h.begun(t, r)
	connectedTo(t, h, c)
	return c
}

func (h *host) begun(t *testing.T, r *module) (c *conn) {
	t.Helper()
	var err error
	h.do(func() { c, err = h.dial(r.name.incarnation, r.name.command, r.name.data) })
	check(t, err)
	return c
}

func connectedTo(t *testing.T, h *host, c *conn) {
	t.Helper()
	eventually(t, "the stranger's connection", func() (ok bool) {
		h.do(func() { ok = c.state >= connected && c.confirmed })
		return ok
	})
	h.do(func() {
		if c.state == gone {
			t.Error(c.err)
		}
	})
}

// greeted waits for the Ack that each side sends once it is established, with its real credits.
func (h *host) greeted(t *testing.T, c *conn) {
	t.Helper()
	eventually(t, "the first credits", func() (ok bool) {
		h.do(func() { ok = c.state != connected || c.limit-c.first+1 > 1 })
		return ok
	})
}

// wait returns how a message ended.
func wait(t *testing.T, m *message, done chan error) error {
	t.Helper()
	select {
	case err := <-done:
		return err
	case <-time.After(20 * time.Second):
		t.Fatalf("no end of %d bytes with tag %d", len(m.data), m.tag)
		return nil
	}
}

// say sends, and waits for the end.
func (h *host) say(t *testing.T, send func() *message) error {
	t.Helper()
	var m *message
	var done chan error
	h.do(func() { m = send(); done = m.ch })
	return wait(t, m, done)
}

// socksOf are the addresses of the real side.
func (h *host) socksOf(r *module) (a [2]netip.AddrPort) {
	a[0], _ = h.parseAddress(r.name.command)
	a[1], _ = h.parseAddress(r.name.data)
	return a
}
