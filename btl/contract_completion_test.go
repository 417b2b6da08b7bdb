package btl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/internal/testenv"
)

// ending is a way in which the sends of an endpoint end.
type ending struct {
	name string
	do   func(l *lab, a *Endpoint) // starts it; a is the sender's endpoint of module 0
	want []error                   // what sends may end with; nil among them means success
	max  time.Duration             // until the endpoint has ended
	ev   Event
}

var endings = []ending{
	{
		name: "endpoint aborted", do: func(_ *lab, a *Endpoint) { a.Abort() },
		want: []error{ErrClosed}, max: time.Millisecond, ev: EventClosed,
	},
	{
		name: "endpoint closed, peer silent", do: func(l *lab, a *Endpoint) { a.Close(l.now) },
		want: []error{ErrClosed}, max: 4 * time.Second, ev: EventClosed,
	},
	{
		name: "endpoint closed, network healed",
		do:   func(l *lab, a *Endpoint) { a.Close(l.now); l.calm() },
		want: []error{nil, ErrNoHandler, ErrRemoteAccess}, max: 6 * time.Second, ev: EventClosed,
	},
	{
		name: "module closed", do: func(l *lab, _ *Endpoint) { l.mods[0].Close() },
		want: []error{ErrClosed}, max: time.Millisecond, ev: EventClosed,
	},
	{
		name: "module drained, time over",
		do:   func(l *lab, _ *Endpoint) { l.mods[0].Drain(l.now, l.now.Add(10*time.Millisecond)) },
		want: []error{ErrClosed}, max: 20 * time.Millisecond, ev: EventClosed,
	},
	{
		name: "module drained, network healed",
		do:   func(l *lab, _ *Endpoint) { l.mods[0].Drain(l.now, Never); l.calm() },
		want: []error{nil, ErrNoHandler, ErrRemoteAccess}, max: 6 * time.Second, ev: EventClosed,
	},
	{
		name: "peer silent", do: func(*lab, *Endpoint) {},
		want: []error{ErrPeerDead, ErrUnreachable}, max: 7 * time.Second, ev: EventFailed,
	},
	{
		name: "peer closed", do: func(l *lab, _ *Endpoint) {
			for _, ep := range l.mods[1].endpoints() {
				if ep != nil {
					ep.Close(l.now)
				}
			}
			l.mods[1].forgetHandlers() // from here on nothing is delivered
			l.calm()
		}, want: []error{nil, ErrPeerClosed, ErrUnreachable, ErrNoHandler, ErrRemoteAccess},
		max: 7 * time.Second, ev: 255,
	},
}

// phases bring an endpoint to the point at which the ending comes: from nothing sent to half sent.
var phases = []struct {
	name string
	run  func(l *lab) *Endpoint
}{
	{"connecting", func(l *lab) *Endpoint {
		l.cut()
		ep, err := l.mods[0].Connect(l.now, l.mods[1].Name())
		if err != nil {
			l.tb.Fatal(err)
		}
		return ep
	}},
	{"window closed", func(l *lab) *Endpoint {
		ep, _ := l.pair()
		l.settle(time.Second)
		l.cut()
		for range 4 {
			sendOrFail(l.tb, ep, 1, make([]byte, 100))
		}
		l.step(time.Microsecond)
		return ep
	}},
	{"connected", func(l *lab) *Endpoint {
		ep, _ := l.pair()
		l.settle(time.Second)
		l.cut()
		return ep
	}},
}

// outcome is what became of one send.
type outcome struct {
	name  string
	calls int
	err   error
}

// sendAllKinds sends a fragment of every kind, each with a signal.
func sendAllKinds(tb testing.TB, ep *Endpoint, h Handle) []*outcome {
	var all []*outcome
	add := func(name string, f *Fragment, err error) {
		tb.Helper()
		if err != nil {
			tb.Fatalf("%s: %v", name, err)
		}
		o := &outcome{name: name}
		all = append(all, o)
		f.Signal = true
		f.OnDone = func(f *Fragment, err error) {
			o.calls++
			o.err = err
			if _, e := ep.Send(ep.Now(), f); !errors.Is(e, ErrState) {
				tb.Errorf("%s: sending it again from its own OnDone: %v", name, e)
			}
			if e := ep.Free(f); !errors.Is(e, ErrState) {
				tb.Errorf("%s: freeing it in its own OnDone: %v", name, e)
			}
		}
		if st, err := ep.Send(ep.Now(), f); err != nil || st != Queued {
			tb.Fatalf("%s: status %d, %v", name, st, err)
		}
		if _, err := ep.Send(ep.Now(), f); !errors.Is(err, ErrState) {
			tb.Errorf("%s: sending it twice: %v", name, err)
		}
	}
	for _, size := range []int{0, 8, 700, 1400, 5000, 40_000} {
		f, err := ep.Prepare(1, make([]byte, size))
		add(fmt.Sprintf("prepared %d", size), f, err)
		f, err = ep.Alloc(1, size)
		add(fmt.Sprintf("allocated %d", size), f, err)
		f, err = ep.PreparePut(make([]byte, size), h, 0)
		add(fmt.Sprintf("put %d", size), f, err)
	}
	f, err := ep.Alloc(77, 8)
	add("to no handler", f, err)
	f, err = ep.PreparePut(make([]byte, 9000), h^1<<40, 0)
	add("to no region", f, err)
	return all
}

// Rule 3: every accepted send completes exactly once, with success or a typed error, however its
// endpoint ends, whatever was the state of its segments. Afterwards every resource is back (rules 7
// and 10).
func TestContract03CompletesOnce(t *testing.T) {
	for _, ph := range phases {
		for _, e := range endings {
			if ph.name == "connecting" {
				if e.name == "peer closed" {
					continue // it has nothing to close
				}
				if e.name == "endpoint closed, peer silent" {
					e.want, e.ev = []error{ErrUnreachable}, EventFailed
				}
			}
			for _, passes := range []int{0, 1, 3} {
				t.Run(fmt.Sprintf("%s/%s/%d", ph.name, e.name, passes), func(t *testing.T) {
					testEnding(t, ph.run, e, passes)
				})
			}
		}
	}
}

func testEnding(t *testing.T, phase func(*lab) *Endpoint, e ending, passes int) {
	cfg := smallConfig()
	cfg.Rules.WindowPackets = 4
	cfg.limits.PassPackets = 3 // fragments are caught half sent
	l := newLab(t, mem.Config{}, 2, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	region, err := l.mods[1].Expose(make([]byte, 40_000), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	a := phase(l)
	all := sendAllKinds(t, a, region.Handle())
	flushed := 0
	a.Flush(l.now, func(error) { flushed++ })
	for range passes {
		l.step(time.Microsecond)
	}
	e.do(l, a)
	for _, m := range l.mods { // before a pass could mend anything
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	l.until("the endpoint has ended", 500*time.Microsecond, e.max, func() bool {
		return len(l.ends(0, a)) > 0
	})
	l.step(time.Microsecond)
	for _, o := range all {
		if o.calls != 1 {
			t.Errorf("%s: OnDone was called %d times", o.name, o.calls)
		}
		if !isOneOf(o.err, e.want) {
			t.Errorf("%s ended with %v, want one of %v", o.name, o.err, e.want)
		}
	}
	if flushed != 1 {
		t.Errorf("Flush's function was called %d times", flushed)
	}
	wantEnd(t, l.ends(0, a), e)
	if _, err := a.Alloc(1, 8); !errors.Is(err, a.Err()) || err == nil {
		t.Errorf("Alloc on the ended endpoint: %v, its error is %v", err, a.Err())
	}
	l.calm()
	for range 20 {
		l.step(100 * time.Millisecond) // lingering and half-open endpoints go
	}
	for i, m := range l.mods {
		for _, ep := range m.endpoints() {
			if ep != nil {
				ep.Abort()
			}
		}
		if m.closed {
			continue
		}
		l.step(time.Microsecond)
		l.wantEmpty(i)
	}
}

func isOneOf(err error, want []error) bool {
	for _, w := range want {
		if w == nil && err == nil || w != nil && errors.Is(err, w) {
			return true
		}
	}
	return false
}

func wantEnd(t *testing.T, got []happening, e ending) {
	t.Helper()
	if len(got) != 1 {
		t.Errorf("%d final events: %v", len(got), got)
		return
	}
	if e.ev != 255 && got[0].ev != e.ev {
		t.Errorf("event %d, want %d", got[0].ev, e.ev)
	}
	if got[0].ev == EventFailed && got[0].err == nil {
		t.Error("EventFailed without a reason")
	}
	if got[0].ev == EventClosed && got[0].err != nil && !errors.Is(got[0].err, ErrPeerClosed) {
		t.Errorf("EventClosed with %v", got[0].err)
	}
}

// Rule 3 and Flush: when the peer dies, flushes that wait for its ACKs fail; one that was done
// before has succeeded.
func TestContract03FlushFails(t *testing.T) {
	cfg := smallConfig()
	cfg.PeerTimeout = time.Second
	l := newLab(t, mem.Config{}, 2, cfg)
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) {})
	a, _ := l.pair()
	var before, inFlight, queued []error
	note := func(to *[]error) func(error) { return func(err error) { *to = append(*to, err) } }
	sendOrFail(t, a, 1, make([]byte, 5000))
	a.Flush(l.now, note(&before))
	l.until("flushed", 20*time.Microsecond, time.Second, func() bool { return len(before) == 1 })
	l.cut()
	sendOrFail(t, a, 1, make([]byte, 8))
	a.Flush(l.now, note(&inFlight))
	l.step(time.Microsecond)
	sendOrFail(t, a, 1, make([]byte, 1_000_000))
	a.Flush(l.now, note(&queued))
	l.until("the peer is dead", time.Millisecond, 3*time.Second, func() bool { return a.Err() != nil })
	l.step(time.Microsecond)
	for _, c := range []struct {
		name string
		got  []error
		want error
	}{
		{"before", before, nil}, {"in flight", inFlight, ErrPeerDead}, {"queued", queued, ErrPeerDead},
	} {
		if len(c.got) != 1 || !errors.Is(c.got[0], c.want) {
			t.Errorf("flush %s ended with %v, want %v once", c.name, c.got, c.want)
		}
	}
	var after []error
	a.Flush(l.now, note(&after))
	if len(after) != 1 || !errors.Is(after[0], ErrPeerDead) {
		t.Errorf("flush of a dead endpoint ended with %v", after)
	}
}

// Flush waits for exactly what was sent before it.
func TestFlushOrder(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	got := 0
	l.mods[1].Handle(1, func(*Endpoint, Tag, []byte) { got++ })
	a, _ := l.pair()
	l.settle(time.Second)
	flushed := 0
	for i, size := range []int{8, 100_000, 1400, 0} {
		sendOrFail(t, a, 1, make([]byte, size))
		a.Flush(l.now, func(err error) {
			if flushed++; err != nil {
				t.Error(err)
			}
			if got <= i {
				t.Errorf("flush %d came after %d deliveries", i, got)
			}
		})
	}
	l.until("all flushed", 10*time.Microsecond, time.Second, func() bool { return flushed == 4 })
	a.Flush(l.now, func(err error) { flushed++ })
	l.step(time.Microsecond)
	if flushed != 5 {
		t.Error("the flush of an idle endpoint did not come with the next pass")
	}
}

// Rule 3: a put that is refused ends with ErrRemoteAccess, a send to no handler with ErrNoHandler,
// and the connection goes on; what was sent around them arrives.
func TestContract03Refusals(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, smallConfig())
	tr := newTraffic(t, testenv.Seed(t, 3), 1)
	l.mods[1].Handle(1, tr.receive)
	block := make([]byte, 45_000) // what is exposed has a capacity beyond its end
	memory := block[:20_000]
	region, err := l.mods[1].Expose(memory, RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	readOnly, err := l.mods[1].Expose(memory, 0)
	if err != nil {
		t.Fatal(err)
	}
	a, _ := l.pair()
	gone, err := l.mods[1].Expose(memory, RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	gone.Close()
	gone.Close()
	for _, c := range []struct {
		name   string
		size   int
		h      Handle
		offset uint64
		want   error
	}{
		{"all of the region", 20_000, region.Handle(), 0, nil},
		{"its last byte", 1, region.Handle(), 19_999, nil},
		{"nothing at its end", 0, region.Handle(), 20_000, nil},
		{"nothing behind it", 0, region.Handle(), 20_001, ErrRemoteAccess},
		{"one byte too many", 1, region.Handle(), 20_000, ErrRemoteAccess},
		{"across its end", 20_000, region.Handle(), 1, ErrRemoteAccess},
		{"far away", 8, region.Handle(), 1 << 62, ErrRemoteAccess},
		{"offset that wraps", 8, region.Handle(), 1<<64 - 1, ErrRemoteAccess},
		{"chunks whose offset wraps", 9000, region.Handle(), 1<<64 - 1416, ErrRemoteAccess},
		{"read-only region", 8, readOnly.Handle(), 0, ErrRemoteAccess},
		{"region withdrawn", 9000, gone.Handle(), 0, ErrRemoteAccess},
		{"another generation", 8, region.Handle() ^ 1<<50, 0, ErrRemoteAccess},
		{"another slot", 8, region.Handle() + 60_000, 0, ErrRemoteAccess},
		{"zero handle", 8, 0, 0, ErrRemoteAccess},
	} {
		clear(block)
		data := make([]byte, c.size)
		for i := range data {
			data[i] = byte(i%251) + 1
		}
		tr.send(a, 3000)
		var ended []error
		f, err := a.PreparePut(data, c.h, c.offset)
		if err == nil {
			f.Signal = true
			f.OnDone = func(_ *Fragment, err error) { ended = append(ended, err) }
			_, err = a.Send(l.now, f)
		}
		if err != nil {
			ended = append(ended, err)
		}
		tr.send(a, 30)
		l.until(c.name, 20*time.Microsecond, 2*time.Second, func() bool {
			return len(ended) > 0 && tr.finished()
		})
		if len(ended) != 1 || !errors.Is(ended[0], c.want) {
			t.Errorf("%s: ended with %v, want %v", c.name, ended, c.want)
		}
		if c.want == nil && string(memory[c.offset:][:c.size]) != string(data) {
			t.Errorf("%s: the bytes are not in place", c.name)
		}
		if n := countNonZero(block[20_000:]); n > 0 {
			t.Errorf("%s: %d bytes were written behind the region", c.name, n)
		}
		if n := countNonZero(memory); c.want != nil && c.name != "across its end" && n > 0 {
			t.Errorf("%s: %d bytes were written", c.name, n)
		}
		if a.Err() != nil {
			t.Fatalf("%s: the connection ended: %v", c.name, a.Err())
		}
	}
	l.settle(time.Second)
	l.wantIdle(0)
	l.wantIdle(1)
	tr.verify()
}

func countNonZero(p []byte) (n int) {
	for _, c := range p {
		if c != 0 {
			n++
		}
	}
	return n
}

// Of fragments sent before the peer could say how much it takes, only the larger ones fail.
func TestContract03TooLargeBeforeConnected(t *testing.T) {
	l := newLab(t, mem.Config{}, 1, smallConfig())
	cfg := smallConfig()
	cfg.FragmentBytesMax, cfg.ReassemblyBytesMax = 10_000, 10_000
	l.add(cfg, "")
	tr := newTraffic(t, testenv.Seed(t, 4), 1)
	l.mods[1].Handle(1, tr.receive)
	region, err := l.mods[1].Expose(make([]byte, 20_000), RemoteWrite)
	if err != nil {
		t.Fatal(err)
	}
	a, err := l.mods[0].Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	tr.send(a, 10_000)
	var ended []error
	for _, put := range []bool{false, true} {
		prepare := func() (*Fragment, error) { return a.Prepare(1, make([]byte, 10_001)) }
		if put {
			prepare = func() (*Fragment, error) {
				return a.PreparePut(make([]byte, 10_001), region.Handle(), 0)
			}
		}
		f, err := prepare()
		if err != nil {
			t.Fatal(err)
		}
		f.OnDone = func(_ *Fragment, err error) { ended = append(ended, err) }
		if _, err := a.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
		tr.send(a, 100)
	}
	l.until("all ended", 20*time.Microsecond, 10*time.Second, func() bool {
		return len(ended) == 2 && tr.finished()
	})
	if !errors.Is(ended[0], ErrTooLarge) || !errors.Is(ended[1], ErrTooLarge) {
		t.Errorf("ended with %v, want ErrTooLarge", ended)
	}
	if _, err := a.Prepare(1, make([]byte, 10_001)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("now that the peer is known: %v", err)
	}
	tr.verify()
	l.settle(time.Second)
	l.wantIdle(0)
}

// A message whose buffer was lent for a packet of the MTU that the name promised, while the peer's
// hello then asks for a smaller one, goes in chunks; its buffer comes back.
func TestContract03MTUShrinksInHandshake(t *testing.T) {
	l, s := newStranger(t, smallConfig())
	s.hello.MTUBytes = 1472
	ep, err := l.mods[0].Connect(l.mods[0].Now(), s.address())
	if err != nil {
		t.Fatal(err)
	}
	ended := 0
	f, err := ep.Alloc(1, 1400)
	if err != nil {
		t.Fatal(err)
	}
	f.OnDone = func(_ *Fragment, err error) {
		if ended++; err != nil {
			t.Error(err)
		}
	}
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	s.hello.MTUBytes = 600
	s.accept()
	s.ack(s.peerFirst - 1)
	s.run(5)
	s.ack(s.peerFirst + 2)
	s.run(5)
	if ended != 1 {
		t.Fatalf("ended %d times; %d packets in flight", ended, inFlight(l.mods[0]))
	}
	l.wantIdle(0)
	for range 3 * l.mods[0].Config().SendBuffers { // every buffer is used again
		sendOrFail(t, ep, 1, make([]byte, 500))
		s.run(2)
		_, next := ep.c.Snd.Window()
		s.ack(next - 1)
		s.run(2)
	}
}
