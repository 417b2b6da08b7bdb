package btl

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
)

// endAll has many sends and flushes of an endpoint end at once, and returns those told in order.
func endAll(tb testing.TB, l *lab, ep *Endpoint, count int) (order []string) {
	tb.Helper()
	for i := range count {
		f, err := ep.Prepare(3, make([]byte, 1))
		if err != nil {
			tb.Fatal(err)
		}
		f.Signal = true
		f.OnDone = func(_ *Fragment, err error) { order = append(order, fmt.Sprint("send ", i, err)) }
		if _, err := ep.Send(l.now, f); err != nil {
			tb.Fatal(err)
		}
		ep.Flush(l.now, func(err error) { order = append(order, fmt.Sprint("flush ", i, err)) })
	}
	ep.Abort()
	l.step(time.Microsecond)
	return order
}

func outboxConfig(count int) Config {
	cfg := regressConfig()
	cfg.FragmentsMax = count * 8 / 7 // of which one endpoint leaves an eighth
	return cfg
}

// Of many sends and flushes that end at once each is told once, in order, the sends first.
func TestManyEndAtOnce(t *testing.T) {
	const count = 40_000
	l := newLab(t, mem.Config{}, 2, outboxConfig(count))
	order := endAll(t, l, l.connect(0, 1), count)
	if len(order) != 2*count {
		t.Fatalf("%d were told, want %d", len(order), 2*count)
	}
	for i := range count {
		send, end := fmt.Sprint("send ", i, ErrClosed), fmt.Sprint("flush ", i, ErrClosed)
		if order[i] != send || order[count+i] != end {
			t.Fatalf("number %d: %q and %q, want %q and %q", i, order[i], order[count+i], send, end)
		}
	}
}

// BenchmarkEndAtOnce is what one of many sends, with its flush, costs that end at once: the same,
// however many there are.
func BenchmarkEndAtOnce(b *testing.B) {
	for _, count := range []int{1_000, 40_000} {
		b.Run(fmt.Sprint(count), func(b *testing.B) {
			for range b.N {
				l := newLab(b, mem.Config{}, 2, outboxConfig(count))
				endAll(b, l, l.connect(0, 1), count)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*count), "ns/end")
		})
	}
}

// An owner that pulls is told everything, in order and once, and nothing is called.
func TestPull(t *testing.T) {
	l := newLab(t, mem.Config{}, 2, outboxConfig(16))
	m := l.mods[0]
	m.PullCompletions(true)
	mustHandle(t, l.mods[1], func() {})
	called := func(*Fragment, error) { t.Error("a function was called") }
	m.OnEndpoint(func(*Endpoint, Event, error) { t.Error("OnEndpoint was called") })

	var buf [3]Completion
	var got []Completion
	pull := func(until func() bool) {
		t.Helper()
		got = got[:0]
		for range 100_000 {
			l.step(10 * time.Microsecond)
			n := m.Pull(buf[:])
			if got = append(got, buf[:n]...); until() {
				return
			}
		}
		t.Fatalf("only %v came", got)
	}
	ep, err := m.Connect(l.now, l.mods[1].Name())
	if err != nil {
		t.Fatal(err)
	}
	pull(func() bool { return len(got) == 1 })
	if c := got[0]; c.Kind != CompletionEvent || c.Event != EventConnected || c.Endpoint != ep {
		t.Fatalf("%+v, want that it is connected", c)
	}
	const sends = 7
	for i := range sends {
		f, err := ep.Prepare(3, make([]byte, 100))
		if err != nil {
			t.Fatal(err)
		}
		f.Signal, f.OnDone, f.Context = true, called, uint64(i)
		if _, err := ep.Send(l.now, f); err != nil {
			t.Fatal(err)
		}
	}
	ep.Flush(l.now, func(error) { t.Error("a function was called") })
	pull(func() bool { return len(got) == sends+1 })
	for i, c := range got[:sends] {
		if c.Kind != CompletionSend || c.Context != uint64(i) || c.Err != nil || c.Endpoint != ep {
			t.Errorf("number %d: %+v", i, c)
		}
	}
	if c := got[sends]; c.Kind != CompletionFlush || c.Endpoint != ep || c.Err != nil {
		t.Errorf("%+v, want the flush", c)
	}
	ep.Close(l.now)
	pull(func() bool { return len(got) == 1 })
	if c := got[0]; c.Kind != CompletionEvent || c.Event != EventClosed || c.Err != nil {
		t.Errorf("%+v, want that it is closed", c)
	}
	ep.Flush(l.now, nil)
	if n := m.Pull(buf[:]); n != 1 || !errors.Is(buf[0].Err, ErrClosed) {
		t.Errorf("%d completions of a flush of a closed endpoint: %+v", n, buf[0])
	}
	m.PullCompletions(false)
	if n := m.Pull(buf[:]); n != 0 {
		t.Errorf("%d completions though functions are called", n)
	}
}

// An owner that pulls nothing keeps its descriptors taken, and its events full: others cannot make
// them more.
func TestPullNothing(t *testing.T) {
	cfg := outboxConfig(16)
	cfg.PeersMax = 4
	l := newLab(t, mem.Config{}, 2, cfg)
	m := l.mods[1]
	m.PullCompletions(true)
	for range 20 {
		ep, err := l.mods[0].Connect(l.now, m.Name())
		if err != nil {
			t.Fatal(err)
		}
		for range 200 {
			if l.step(20 * time.Microsecond); ep.Connected() {
				break
			}
		}
		ep.Abort()
		for _, other := range m.endpoints() {
			if other != nil {
				other.Abort()
			}
		}
		l.step(time.Millisecond)
	}
	if n := m.Pull(make([]Completion, 32)); n < 4 || n > 8 {
		t.Errorf("%d events wait, want those of 4 endpoints at most, and all that were", n)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

// An owner that begins to pull when a goodbye has ended already is not told of it.
func TestPullLate(t *testing.T) {
	b := newBench(t, mem.Config{}, 2, smallConfig())
	ep := b.connect(0, 1)
	f, err := ep.Prepare(3, make([]byte, 100))
	if err != nil {
		t.Fatal(err)
	}
	f.Signal, f.Context = true, 7
	if _, err := ep.Send(b.now, f); err != nil {
		t.Fatal(err)
	}
	ep.Close(b.now)
	ep.Abort()
	m := b.mods[0]
	m.PullCompletions(true)
	var got [8]Completion
	sends := 0
	for _, c := range got[:m.Pull(got[:])] {
		if c.Kind == CompletionSend {
			if sends++; c.Context != 7 {
				t.Errorf("told of %+v", c)
			}
		}
	}
	if sends != 1 {
		t.Errorf("told of %d sends, want 1", sends)
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
	m.PullCompletions(false)
	b.step(time.Millisecond)
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
