package impair_test

import (
	"bytes"
	"errors"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobtl/fabric"
	"gobtl/fabric/fabrictest"
	"gobtl/fabric/impair"
	"gobtl/fabric/mem"
	"gobtl/internal/mono"
)

// endpointOf opens an endpoint that has inserted its own name.
func endpointOf(t *testing.T, d *impair.Domain) (fabric.Endpoint, fabric.Addr) {
	t.Helper()
	e, err := d.OpenEndpoint(fabric.EndpointConfig{})
	if err != nil {
		t.Fatal(err)
	}
	self, err := d.Insert(e.Name())
	if err != nil {
		t.Fatal(err)
	}
	return e, self
}

// TestNothingPosted checks a caller that posts no buffers for a while. The caller loses no datagram
// within its RecvCapacity, and gets the datagrams after posting buffers. All datagrams are
// duplicated and delayed, and every queue is therefore full.
func TestNothingPosted(t *testing.T) {
	for _, delay := range []time.Duration{0, time.Millisecond} {
		now := mono.Time(0)
		d := open(t, mem.New(mem.Config{}), fabric.DomainConfig{Buffers: 16},
			impair.Faults{Dup: 1, Delay: delay})
		d.SetClock(func() mono.Time { return now })
		arena := d.Arena()
		e, self := endpointOf(t, d)
		var out [64]fabric.Completion
		count := e.Caps().RecvCapacity
		for i := range count {
			copy(arena.Bytes(15), contents(i))
			if _, err := e.Post([]fabric.Send{{To: self, Buf: 15, Len: packetBytes}}); err != nil {
				t.Fatal(err)
			}
			if n, err := e.Poll(out[:]); n != 0 || err != nil {
				t.Fatalf("Poll with nothing posted: %d, %v", n, err)
			}
		}
		now = now.Add(delay)
		for got := range 2 * count {
			if _, err := e.Recv([]fabric.Buf{3}); err != nil {
				t.Fatal(err)
			}
			if n, err := e.Poll(out[:]); n != 1 || err != nil {
				t.Fatalf("delay %v: after %d of twice %d, Poll returned %d, %v", delay, got, count, n,
					err)
			}
			if !bytes.Equal(arena.Bytes(3)[:packetBytes], contents(got/2)) {
				t.Fatalf("delay %v: datagram %d is not the one that was sent", delay, got)
			}
		}
	}
}

// TestPollLooksFurther checks that a Poll that has lost all datagrams of a batch polls again.
func TestPollLooksFurther(t *testing.T) {
	b := newBench(t, impair.Faults{Loss: 0.9, Seed: 5})
	for i := range 10 * 8 {
		b.send(i)
		if i%8 != 7 {
			continue
		}
		before := b.dom.Counts()
		n, err := b.rx.Poll(b.done[:1])
		if err != nil {
			t.Fatal(err)
		}
		after := b.dom.Counts()
		if arrived := after.Arrived - before.Arrived; n == 0 && arrived != 8 {
			t.Fatalf("Poll found nothing, but looked at %d of 8 datagrams", arrived)
		}
		for b.poll() > 0 {
			continue
		}
	}
}

// TestPollLeavesSome checks that Caps.PollsAll is false. A Poll that loses datagrams may return
// fewer completions than it has room for, and leave others.
func TestPollLeavesSome(t *testing.T) {
	d := open(t, mem.New(mem.Config{QueueDatagrams: 1000}), fabric.DomainConfig{Buffers: 64},
		impair.Faults{Loss: 0.95, Seed: 5})
	e, self := endpointOf(t, d)
	for i := range 63 {
		if _, err := e.Recv([]fabric.Buf{fabric.Buf(i)}); err != nil {
			t.Fatal(err)
		}
	}
	for range 1000 {
		if _, err := e.Post([]fabric.Send{{To: self, Buf: 63, Len: packetBytes}}); err != nil {
			t.Fatal(err)
		}
	}
	var out [64]fabric.Completion
	first, err := e.Poll(out[:])
	if err != nil || first == len(out) {
		t.Fatalf("the first Poll reports %d, %v", first, err)
	}
	if second, err := e.Poll(out[:]); err != nil || second > 0 && e.Caps().PollsAll {
		t.Errorf("PollsAll, but after %d came %d, %v", first, second, err)
	} else if second == 0 {
		t.Errorf("nothing was left after %d: no test of that", first)
	}
}

// TestHiddenBuffersAreRefused checks that the caller cannot use hidden buffers, and that a bad
// buffer stops a batch.
func TestHiddenBuffersAreRefused(t *testing.T) {
	cfg := fabric.DomainConfig{Buffers: 8}
	d := open(t, mem.New(mem.Config{}), cfg, impair.Faults{})
	e, self := endpointOf(t, d)
	for b := 8; b < impair.Reserve(cfg).Buffers; b++ {
		hidden := fabric.Buf(b)
		good, bad := fabric.Send{To: self, Len: 1}, fabric.Send{To: self, Buf: hidden, Len: 1}
		if n, err := e.Post([]fabric.Send{good, bad, good}); n != 1 || !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("Post of hidden buffer %d in place 1: %d, %v, want EINVAL", b, n, err)
		}
		if n, err := e.Recv([]fabric.Buf{hidden}); n != 0 || !errors.Is(err, syscall.EINVAL) {
			t.Fatalf("Recv of hidden buffer %d: %d, %v, want EINVAL", b, n, err)
		}
	}
}

// TestWaitSeesSecondCopy checks that Wait returns at once if one copy was polled and the other copy
// is ready.
func TestWaitSeesSecondCopy(t *testing.T) {
	d := open(t, mem.New(mem.Config{}), fabric.DomainConfig{Buffers: 8}, impair.Faults{Dup: 1})
	e, self := endpointOf(t, d)
	if _, err := e.Recv([]fabric.Buf{0, 1}); err != nil {
		t.Fatal(err)
	}
	if _, err := e.Post([]fabric.Send{{To: self, Buf: 2, Len: 1}}); err != nil {
		t.Fatal(err)
	}
	var out [1]fabric.Completion
	if n, err := e.Poll(out[:]); n != 1 || err != nil {
		t.Fatalf("Poll: %d, %v", n, err)
	}
	ended := make(chan error)
	go func() { ended <- d.Wait(-1) }()
	select {
	case err := <-ended:
		if err != nil {
			t.Fatal(err)
		}
	case <-time.After(5 * time.Second):
		d.Wake()
		<-ended
		t.Fatal("Wait slept although a datagram was ready")
	}
}

// TestWaitWithNothingPosted checks that datagrams that cannot be delivered without a posted buffer
// do not keep Wait awake.
func TestWaitWithNothingPosted(t *testing.T) {
	d := open(t, mem.New(mem.Config{}), fabric.DomainConfig{Buffers: 8}, impair.Faults{Delay: 1})
	e, self := endpointOf(t, d)
	if _, err := e.Post([]fabric.Send{{To: self, Len: 1}}); err != nil {
		t.Fatal(err)
	}
	var out [4]fabric.Completion
	if _, err := e.Poll(out[:]); err != nil {
		t.Fatal(err)
	}
	const nap = 10 * time.Millisecond
	start := time.Now()
	for range 5 {
		if err := d.Wait(nap); err != nil {
			t.Fatal(err)
		}
	}
	if slept := time.Since(start); slept < nap {
		t.Errorf("5 waits of %v took %v together: it does not sleep", nap, slept)
	}
}

// TestWaitForDelayed checks that Wait sleeps until a delayed datagram is due, on the real clock,
// without any other event.
func TestWaitForDelayed(t *testing.T) {
	nw := mem.New(mem.Config{})
	d := open(t, nw, fabric.DomainConfig{Buffers: 16}, impair.Faults{Delay: 5 * time.Millisecond})
	e, self := endpointOf(t, d)
	if _, err := e.Recv([]fabric.Buf{0}); err != nil {
		t.Fatal(err)
	}
	start := time.Now()
	if _, err := e.Post([]fabric.Send{{To: self, Buf: 1, Len: 8}}); err != nil {
		t.Fatal(err)
	}
	var out [4]fabric.Completion
	for waits := 0; ; waits++ {
		n, err := e.Poll(out[:])
		if err != nil {
			t.Fatal(err)
		}
		if n == 1 {
			break
		}
		if waits == 100 {
			t.Fatal("Wait returns over and over: it spins")
		}
		if err := d.Wait(-1); err != nil {
			t.Fatal(err)
		}
	}
	if took := time.Since(start); took < 5*time.Millisecond {
		t.Errorf("it arrived after %v, before its delay was over", took)
	}
}

// deaf is a domain that is no Waiter.
type deaf struct{ fabric.Domain }

func TestInnerCannotWait(t *testing.T) {
	inner, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{Buffers: 64})
	if err != nil {
		t.Fatal(err)
	}
	d, err := impair.Wrap(deaf{inner}, 8, impair.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	d.Wake()
	if err := d.Wait(-1); err != nil {
		t.Errorf("Wait: %v", err)
	}
	d.Close()
	d.Wake()
	if err := d.Wait(-1); !errors.Is(err, fabric.ErrClosed) {
		t.Errorf("Wait after Close: %v, want ErrClosed", err)
	}
}

func TestWrapErrors(t *testing.T) {
	inner, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{Buffers: 32})
	if err != nil {
		t.Fatal(err)
	}
	for _, tc := range []struct {
		visible int
		faults  impair.Faults
	}{
		{0, impair.Faults{}},
		{-1, impair.Faults{}},
		{32, impair.Faults{}},
		{17, impair.Faults{}},
		{8, impair.Faults{Loss: 2}},
	} {
		if _, err := impair.Wrap(inner, tc.visible, tc.faults); !errors.Is(err, fabric.ErrBadConfig) {
			t.Errorf("Wrap of %d with %d visible and %v: %v, want ErrBadConfig", 32, tc.visible,
				tc.faults, err)
		}
	}
	if _, err := inner.OpenEndpoint(fabric.EndpointConfig{}); err != nil {
		t.Errorf("the inner domain does not work any more: %v", err)
	}
	if got := impair.Reserve(fabric.DomainConfig{Buffers: -1}).Buffers; got != -1 {
		t.Errorf("Reserve made %d of -1 buffers", got)
	}
}

// TestHiddenBuffersComeBack checks that the hidden buffers of closed endpoints are reused, and that
// a lack of hidden buffers is an error.
func TestHiddenBuffersComeBack(t *testing.T) {
	inner, err := mem.New(mem.Config{}).Open(fabric.DomainConfig{Buffers: 8 + 16})
	if err != nil {
		t.Fatal(err)
	}
	d, err := impair.Wrap(inner, 8, impair.Faults{})
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	for range 3 {
		var open []fabric.Endpoint
		for {
			e, err := d.OpenEndpoint(fabric.EndpointConfig{})
			if errors.Is(err, fabric.ErrBadConfig) {
				break
			}
			if err != nil {
				t.Fatal(err)
			}
			// The capacity is at most the number of hidden buffers.
			if got, most := e.Caps().RecvCapacity, 8>>len(open); got > most {
				t.Errorf("RecvCapacity %d with %d hidden buffers", got, most)
			}
			open = append(open, e)
		}
		if len(open) != 4 { // 8, 4, 2 and 1 of 16 hidden buffers; the last cannot be halved
			t.Fatalf("%d endpoints share 16 hidden buffers, want 4", len(open))
		}
		for _, e := range open {
			e.Close()
		}
	}
}

func TestOpenByInfo(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: mem.ProviderName})
	if err != nil {
		t.Fatal(err)
	}
	f := impair.Faults{Loss: 0.5}
	d, err := impair.Open(infos[0], fabric.DomainConfig{}, f)
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	arena := d.Arena()
	if arena.Len() != 4096 || d.Faults() != f {
		t.Errorf("%d buffers, faults %v", arena.Len(), d.Faults())
	}
	attrs := d.Info().Attrs
	if last := attrs[len(attrs)-1]; last.Name != "impair" || last.Value != "loss=50%" {
		t.Errorf("Attrs end with %+v", last)
	}
	if _, err := impair.Open(infos[0], fabric.DomainConfig{}, impair.Faults{Loss: -1}); !errors.Is(err,
		fabric.ErrBadConfig) {
		t.Errorf("Open with a negative loss: %v", err)
	}
	unknown := fabric.Info{Provider: "no/such"}
	_, err = impair.Open(unknown, fabric.DomainConfig{}, f)
	if !errors.Is(err, fabric.ErrNoProvider) {
		t.Errorf("Open of an unknown provider: %v", err)
	}
}

// TestCountsFromAnotherGoroutine checks that Counts may be read while the domain works.
func TestCountsFromAnotherGoroutine(t *testing.T) {
	b := newBench(t, all)
	stop := make(chan struct{})
	var reader sync.WaitGroup
	reader.Go(func() {
		for last := uint64(0); ; {
			c := b.dom.Counts()
			if c.Arrived < last {
				t.Errorf("Arrived went back from %d to %d", last, c.Arrived)
			}
			last = c.Arrived
			select {
			case <-stop:
				return
			default:
			}
		}
	})
	b.run(2000)
	close(stop)
	reader.Wait()
}

func TestNoAllocations(t *testing.T) {
	b := newBench(t, all)
	send := []fabric.Send{{To: b.to, Len: packetBytes}}
	var one [1]fabric.Buf
	step := func() {
		if _, err := b.tx.Post(send); err != nil {
			t.Fatal(err)
		}
		b.now = b.now.Add(time.Microsecond)
		n, err := b.rx.Poll(b.done[:])
		if err != nil {
			t.Fatal(err)
		}
		for i := range b.done[:n] {
			one[0] = b.done[i].Buf
			if _, err := b.rx.Recv(one[:]); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 100 {
		step()
	}
	if got := testing.AllocsPerRun(5000, step); got != 0 {
		t.Errorf("%v allocations for each datagram", got)
	}
	if c := b.dom.Counts(); c.Lost == 0 || c.Duplicated == 0 || c.Reordered == 0 || c.Delayed == 0 ||
		c.Corrupted == 0 || c.Truncated == 0 {
		t.Errorf("not every fault took part: %+v", c)
	}
}

func BenchmarkFabric(b *testing.B) {
	nw := mem.New(mem.Config{})
	fabrictest.Bench(b, fabrictest.Fixture{
		Name: "impair",
		Open: func(tb testing.TB, cfg fabric.DomainConfig) fabric.Domain {
			return open(tb, nw, cfg, impair.Faults{})
		},
	})
}

// TestDelayIsTheLeast checks a thread that stops between reading the clock and polling. A datagram
// that is sent in the meantime must not arrive before its delay is over. Impossibly short round
// trips would otherwise be measured.
func TestDelayIsTheLeast(t *testing.T) {
	const stood, delay = time.Millisecond, 2 * time.Millisecond
	b := newBench(t, impair.Faults{Delay: delay})
	stands := true
	b.dom.SetClock(func() mono.Time {
		read := b.now
		if stands {
			stands = false
			b.now = b.now.Add(stood)
			b.send(0)
		}
		return read
	})
	sentAt := b.now.Add(stood)
	for _, c := range []struct {
		at   time.Duration
		want int
	}{{-stood, 0}, {delay - stood, 0}, {delay - 1, 0}, {delay, 1}} {
		b.now = sentAt.Add(c.at)
		if n, err := b.rx.Poll(b.done[:]); n != c.want || err != nil {
			t.Errorf("%v after it was sent Poll returned %d, %v; want %d", c.at, n, err, c.want)
		}
	}
}
