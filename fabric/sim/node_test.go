package sim_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

func TestNodes(t *testing.T) {
	nw := newNetwork(t, sim.Config{})
	a := nw.Node("a")
	for i, name := range []string{"", "a b", "x\x00\xffy", strings.Repeat("n", 40)} {
		if n := nw.Node(name); n.Index() != i+1 || len(n.Name()) > 32 || n.Name() == "" {
			t.Errorf("node %q is %q with the number %d", name, n.Name(), n.Index())
		}
	}
	if nw.Node("a") != a || a.Name() != "a" || len(nw.Nodes()) != 5 || nw.Nodes()[0] != a {
		t.Errorf("nodes: %v", nw.Nodes())
	}
}

func TestPortNames(t *testing.T) {
	for _, p := range []sim.Port{{}, {1, 0}, {0, 1}, {65535, 65535}, {258, 772}} {
		if got, err := sim.ParsePort(p.Name()); err != nil || got != p {
			t.Errorf("%v: %v, %v", p, got, err)
		}
	}
	got := (sim.Port{Node: 258, Index: 772}).Name()
	if want := "sim:\x01\x02\x03\x04"; string(got) != want {
		t.Errorf("name %q", got)
	}
	for _, bad := range []string{"", "sim:123", "sim:12345", "mem:1234"} {
		if _, err := sim.ParsePort([]byte(bad)); !errors.Is(err, fabric.ErrBadName) {
			t.Errorf("ParsePort(%q): %v", bad, err)
		}
	}
}

func TestBadConfig(t *testing.T) {
	for _, cfg := range []sim.Config{
		{MTUBytes: -1},
		{MTUBytes: 1<<20 + 1},
		{TxDepth: -1},
		{RxDepth: 1<<20 + 1},
		{QueueDatagrams: -1},
		{PassCost: -1},
	} {
		if _, err := sim.New(cfg); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	nw := newNetwork(t, sim.Config{})
	n := nw.Node("a")
	for _, cfg := range []fabric.DomainConfig{
		{Buffers: -1}, {BufferBytes: -1}, {Buffers: 1 << 24, BufferBytes: 1 << 24},
	} {
		if _, err := n.Open(cfg); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	d, err := n.Open(fabric.DomainConfig{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := n.Open(fabric.DomainConfig{}); !errors.Is(err, fabric.ErrBadConfig) {
		t.Errorf("a second domain: %v", err)
	}
	for _, cfg := range []fabric.EndpointConfig{{TxDepth: -1}, {RxDepth: 1<<20 + 1}} {
		if _, err := d.OpenEndpoint(cfg); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("%+v: %v", cfg, err)
		}
	}
	nw.Close()
	if _, err := n.Open(fabric.DomainConfig{}); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Open on a closed network: %v", err)
	}
	if _, err := d.OpenEndpoint(fabric.EndpointConfig{}); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("OpenEndpoint on a closed network: %v", err)
	}
}

// TestEventsInOrder checks that events run by time, and then in the order of their creation. No
// event runs before the present time.
func TestEventsInOrder(t *testing.T) {
	nw := newNetwork(t, sim.Config{})
	if nw.Now() != 1 || nw.Step() {
		t.Fatalf("a new network has an event at %d", nw.Now())
	}
	var got []string
	note := func(what string) func() {
		return func() { got = append(got, fmt.Sprint(what, nw.Now())) }
	}
	nw.At(30, note("c"))
	nw.At(10, note("a"))
	nw.At(30, note("d"))
	nw.At(-5, note("past"))
	nw.After(9, func() {
		nw.After(0, note("nested"))
		note("b")()
	})
	nw.At(mono.Never, note("never"))
	nw.After(1<<63-1, note("never"))
	nw.RunUntil(20)
	if want := []string{"past1", "a10", "b10", "nested10"}; !slices.Equal(got, want) {
		t.Errorf("until 20: %v, want %v", got, want)
	}
	if nw.Now() != 20 {
		t.Errorf("it is %d, want 20", nw.Now())
	}
	nw.RunUntil(5)
	if nw.Now() != 20 {
		t.Errorf("time went back to %d", nw.Now())
	}
	if !nw.Step() || nw.Now() != 30 || !nw.Step() || nw.Step() {
		t.Errorf("the steps ended at %d", nw.Now())
	}
	if want := []string{"past1", "a10", "b10", "nested10", "c30", "d30"}; !slices.Equal(got, want) {
		t.Errorf("%v, want %v", got, want)
	}
}

// TestManyTimers compares the heap with a sort.
func TestManyTimers(t *testing.T) {
	nw := newNetwork(t, sim.Config{})
	x, last, count := uint32(1), mono.Time(0), 0
	var add func(n int)
	add = func(n int) {
		for range n {
			x = x*1664525 + 1013904223
			at := nw.Now().Add(time.Duration(x >> 20))
			nw.At(at, func() {
				if nw.Now() != at || at < last {
					t.Errorf("the event of %d runs at %d, after that of %d", at, nw.Now(), last)
				}
				last = at
				if count++; count < 3000 {
					add(int(x>>16) % 3)
				}
			})
		}
	}
	add(1000)
	for nw.Step() {
	}
	if count < 1000 {
		t.Errorf("%d events ran", count)
	}
}

func TestRestartKeepsNames(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{Delay: time.Millisecond})
	name := b.ep.Name()
	if want := (sim.Port{Node: 1}).Name(); !bytes.Equal(name, want) {
		t.Errorf("name %q, want %q", name, want)
	}
	a.send(b, []byte("to the first"))
	old := b.ep
	for i, end := range []func(){func() { b.dom.Close() }, b.node.Crash} {
		end()
		if _, err := old.Poll(b.out[:]); !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("Poll after the end: %v", err)
		}
		b.open()
		if !bytes.Equal(b.ep.Name(), name) {
			t.Errorf("restart %d changed the name from %q to %q", i, name, b.ep.Name())
		}
		second, err := b.dom.OpenEndpoint(fabric.EndpointConfig{})
		if err != nil {
			t.Fatal(err)
		}
		if want := (sim.Port{Node: 1, Index: 1}).Name(); !bytes.Equal(second.Name(), want) {
			t.Errorf("the second endpoint is called %q", second.Name())
		}
		old = b.ep
	}
	nw.RunUntil(nw.Now().Add(time.Second))
	if len(b.arrived) != 1 { // datagrams in transit reach the new process, as on a real network
		t.Errorf("%d datagrams arrived, want 1", len(b.arrived))
	}
	if c := nw.Counts(); c[sim.KindOpen] != 2 || c[sim.KindRestart] != 2 || c[sim.KindCrash] != 1 {
		t.Errorf("counts %v", c)
	}
}

func TestCrash(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	b.node.Pause(time.Millisecond) // some datagrams must wait in the queue
	a.node.SetFaults(sim.NodeFaults{LateSends: time.Nanosecond})
	for range 5 {
		a.send(b, []byte("into the queue"))
	}
	nw.SetPath(b.node, a.node, sim.Path{Delay: time.Millisecond})
	b.send(a, []byte("last words"))
	nw.RunUntil(nw.Now().Add(10 * time.Microsecond))
	if nw.Queued() != 5 {
		t.Errorf("%d wait, want 5", nw.Queued())
	}
	ep, dom, passes := b.ep, b.dom, len(b.passes)
	b.node.Crash()
	for what, err := range map[string]error{
		"Recv":             second(ep.Recv([]fabric.Buf{1})),
		"Poll":             second(ep.Poll(b.out[:])),
		"Post":             second(ep.Post(make([]fabric.Send, 1))),
		"OpenEndpoint":     second(dom.OpenEndpoint(fabric.EndpointConfig{})),
		"Insert":           second(dom.Insert(sim.Port{}.Name())),
		"RegisterRegion":   second(dom.RegisterRegion(make([]byte, 5))),
		"Remove":           dom.Remove(1),
		"DeregisterRegion": dom.DeregisterRegion(1),
	} {
		if !errors.Is(err, fabric.ErrClosed) {
			t.Errorf("%s after the crash: %v", what, err)
		}
	}
	if err := errors.Join(ep.Close(), dom.Close()); err != nil {
		t.Errorf("Close after the crash: %v", err)
	}
	b.node.Kick()
	a.send(b, []byte("nobody is there"))
	nw.RunUntil(nw.Now().Add(time.Second))
	if b.received != 0 || len(b.passes) != passes {
		t.Errorf("after the crash %d datagrams arrived and %d passes were made", b.received,
			len(b.passes)-passes)
	}
	if a.received != 1 || nw.Counts()[sim.KindUnreachable] != 6 || nw.Queued() != 0 {
		t.Errorf("%d last words arrived, counts %v", a.received, nw.Counts())
	}
	settled(t, nw)
}

// second is the error of a call with two results.
func second[T any](_ T, err error) error { return err }

// TestCrashInsidePass ends and restarts a node from inside its own pass.
func TestCrashInsidePass(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	b.each = func(s *station) {
		s.each = nil
		s.node.Crash()
		s.open()
		s.fail = errors.New("of the old process, not of the new one")
		nw.After(0, func() { s.fail = nil })
	}
	b.node.Kick()
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	a.send(b, []byte("hello"))
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	if b.received != 1 {
		t.Errorf("%d datagrams arrived", b.received)
	}
	b.each = func(s *station) { s.node.Crash() }
	b.node.Kick()
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	a.send(b, []byte("hello"))
	nw.RunUntil(nw.Now().Add(time.Millisecond))
	if b.received != 1 {
		t.Errorf("%d datagrams arrived after the end", b.received)
	}
}

// TestPasses checks that passes come when there is something to poll, at the Deadline, after Kick,
// and at no other time.
func TestPasses(t *testing.T) {
	nw, a, b := pair(t, sim.Config{PassCost: 3 * time.Microsecond}, sim.Path{Delay: 50000})
	check := func(what string, want ...mono.Time) {
		t.Helper()
		if !slices.Equal(b.passes, want) {
			t.Errorf("%s: passes at %v, want %v", what, b.passes, want)
		}
		b.passes = nil
	}
	check("at the beginning", 1)
	nw.RunUntil(1000000)
	check("with nothing to do")
	a.send(b, []byte("x"))
	a.send(b, []byte("y"))
	nw.RunUntil(2000000)
	check("two datagrams", 1050000)
	b.node.Kick()
	b.node.Kick()
	nw.RunUntil(3000000)
	check("Kick", 2000000)
	b.deadline = 3500000
	b.node.Kick()
	nw.RunUntil(4000000)
	check("Kick and Deadline", 3000000, 3500000)
	b.deadline = 1 // long past
	b.node.Kick()
	nw.RunUntil(5000000)
	check("Deadline in the past", 4000000)
	b.each = func(s *station) {
		if s.deadline = 1; len(s.passes) == 4 {
			s.deadline, s.each = mono.Never, nil
		}
	}
	b.node.Kick()
	nw.RunUntil(6000000)
	check("busy for four passes", 5000000, 5003000, 5006000, 5009000)
	for range 40 { // more than a pass polls
		a.send(b, []byte("x"))
	}
	nw.RunUntil(7000000)
	check("something left to poll", 6050000, 6053000, 6056000)
	b.send(a, make([]byte, 1400))
	nw.RunUntil(8000000)
	check("completion of a send", 7000000)
	b.each = func(s *station) { s.node.Kick(); s.each = nil }
	b.node.Kick()
	nw.RunUntil(9000000)
	check("Kick from inside", 8000000, 8003000)
	b.node.Run(nil)
	a.send(b, []byte("x"))
	nw.RunUntil(10000000)
	check("no process")
	b.node.Run(b)
	nw.RunUntil(11000000)
	check("a process again", 10000000)
	b.deadline = 12000000
	b.node.Kick()
	nw.RunUntil(11500000)
	a.send(b, []byte("x"))
	nw.RunUntil(13000000)
	check("arrival before the deadline", 11000000, 11550000, 12000000)
}

// TestRecvMakesPass checks datagrams that wait for a posted buffer. When the owner posts a buffer
// outside of a pass, a pass follows.
func TestRecvMakesPass(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	ep, err := b.dom.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	nw.Inject(sim.Port{Node: a.node.Index()}, sim.Port{Node: 1, Index: 1}, []byte("x"))
	nw.RunUntil(1000000)
	b.passes = nil
	b.each = func(*station) {
		var out [1]fabric.Completion
		if n, err := ep.Poll(out[:]); n != 1 || err != nil {
			t.Errorf("Poll: %d, %v", n, err)
		}
	}
	if _, err := ep.Recv(b.free[:1]); err != nil {
		t.Fatal(err)
	}
	nw.RunUntil(2000000)
	if !slices.Equal(b.passes, []mono.Time{1000000}) {
		t.Errorf("passes at %v", b.passes)
	}
}

func TestPauseAndPace(t *testing.T) {
	nw, a, b := pair(t, sim.Config{}, sim.Path{})
	check := func(what string, slow int, want ...mono.Time) {
		t.Helper()
		if !slices.Equal(b.passes, want) {
			t.Errorf("%s: passes at %v, want %v", what, b.passes, want)
		}
		if got := nw.Counts()[sim.KindSlow]; got != uint64(slow) {
			t.Errorf("%s: %d passes were slow, want %d", what, got, slow)
		}
		b.passes = nil
	}
	nw.RunUntil(1000000)
	b.passes = nil
	b.node.Pause(500000)
	b.node.Pause(100000) // the longer pause counts
	a.send(b, []byte("x"))
	nw.RunUntil(2000000)
	check("paused", 0, 1500000)
	b.node.Kick()
	b.node.Pause(500000) // a pass is due already
	nw.RunUntil(3000000)
	check("paused with a pass due", 0, 2500000)
	b.node.SetPace(400000)
	for range 33 {
		a.send(b, []byte("x"))
	}
	nw.RunUntil(4000000)
	check("paced", 2, 3000000, 3400000, 3800000)
	a.send(b, []byte("x"))
	nw.RunUntil(4100000)
	b.node.SetPace(0) // the pass was scheduled at 4200000
	nw.RunUntil(5000000)
	check("no pace any more", 2, 4100000)
	b.deadline = 7000000
	b.node.Kick()
	nw.RunUntil(6000000)
	b.node.SetPace(300000) // does not affect a pass that is due much later
	nw.RunUntil(8000000)
	check("pace and deadline", 2, 5000000, 7000000)
	b.deadline = 8300000 // when the pace permits a pass anyway
	b.node.Kick()
	nw.RunUntil(9000000)
	check("pace and deadline at once", 2, 8000000, 8300000)
	if nw.Counts()[sim.KindPause] != 3 {
		t.Errorf("counts %v", nw.Counts())
	}
}

func TestProcessErrorStops(t *testing.T) {
	var got error
	observe := func(e *sim.Event) {
		if e.Kind == sim.KindProcessError {
			got = e.Err
		}
	}
	nw, a, b := pair(t, sim.Config{Observe: observe}, sim.Path{})
	b.passes = nil
	b.fail = errors.New("out of paper")
	for range 3 {
		a.send(b, []byte("x"))
		nw.RunUntil(nw.Now().Add(time.Millisecond))
	}
	if !errors.Is(got, b.fail) || len(b.passes) != 1 {
		t.Errorf("error %v, %d passes", got, len(b.passes))
	}
}
