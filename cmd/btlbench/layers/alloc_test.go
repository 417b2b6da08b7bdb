package layers

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/waiting"

	// Tests in this process need a network that reaches within the process.
	_ "gobtl/fabric/mem"
)

// localPair opens both sides in this process, without a control connection.
func localPair(t testing.TB) (client, server *Side) {
	t.Helper()
	cfg := Config{
		Provider: "mem/local", Layers: []string{plan.LayerRaw, plan.LayerBTL},
		PeerTimeoutNs: int64(time.Minute), TimeoutNs: int64(time.Minute),
	}
	open := func(cfg Config) *Side {
		s, err := Open(cfg, NodeHint{}, -1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	client = open(cfg)
	cfg.Server, cfg.Peer = true, client.Offers()
	server = open(cfg)
	if err := join(client, server); err != nil {
		t.Fatal(err)
	}
	return client, server
}

// join connects two sides of this process.
func join(client, server *Side) error {
	// A side that connects does not answer a call of Offers.
	offers, answers := client.Offers(), server.Offers()
	connected := make(chan error)
	go func() { connected <- server.Connect(offers) }()
	err := client.Connect(answers)
	return errors.Join(err, <-connected)
}

// localRound runs one round between two local sides and returns the client's and the server's view.
func localRound(t testing.TB, client, server *Side, spec plan.Spec) (c, s *Round) {
	t.Helper()
	spec.PeerTimeoutNs = int64(5 * time.Second)
	c, s = &Round{Spec: spec}, &Round{Spec: spec, Server: true}
	if plan.IsLatency(spec.Test) {
		c.Meter.Hist = NewHist()
	}
	prepare := func(on *Side, r *Round) (handle uint64) {
		err := on.engine.do(func() (err error) {
			handle, err = on.Layer(spec.Layer).Prepare(r)
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		return handle
	}
	s.Handle = prepare(client, c)
	c.Handle = prepare(server, s)
	ended := make(chan error)
	there, here := server.Layer(spec.Layer), client.Layer(spec.Layer)
	go func() { ended <- server.engine.do(func() error { return there.Server(s) }) }()
	if err := client.engine.do(func() error { return here.Client(c) }); err != nil {
		t.Fatalf("%v: %v", &spec, err)
	}
	s.Stopped.Store(true)
	if err := <-ended; err != nil {
		t.Fatalf("%v: server: %v", &spec, err)
	}
	return c, s
}

// TestNoAllocations compares a long round with a short one: what they differ by is what a message
// costs, on both sides together.
func TestNoAllocations(t *testing.T) {
	notRaced(t)
	client, server := localPair(t)
	const short, long = 500, 2500
	mallocs := func(spec plan.Spec, messages int64) uint64 {
		spec.Messages = messages
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		localRound(t, client, server, spec)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	for _, layer := range []string{plan.LayerRaw, plan.LayerBTL} {
		for _, test := range plan.AllTests {
			for _, size := range []int{8, 1200, 4000} {
				spec := plan.Spec{
					Test: test, Layer: layer, SizeBytes: size, Window: 32, Load: plan.LoadMax, LoadBytes: 3000,
				}
				offer := client.Layer(layer).offer()
				if SkipReason(&offer, test, size) != "" {
					continue
				}
				// One good one of a few: other goroutines of the test binary allocate as well.
				perMessage := 1.0
				for try := 0; try < 4 && perMessage > 0.02; try++ {
					base := mallocs(spec, short)
					more := max(mallocs(spec, long), base) - base
					perMessage = min(perMessage, float64(more)/(long-short))
				}
				if perMessage > 0.02 {
					t.Errorf("%v: %.3f allocations per message", &spec, perMessage)
				}
			}
		}
	}
}

// TestStuck has a server that does not answer, on a transport that does.
func TestStuck(t *testing.T) {
	client, server := localPair(t)
	client.Cfg.PeerTimeoutNs = int64(50 * time.Millisecond)
	for _, test := range []string{plan.TestLat, plan.TestBW} {
		r := &Round{Spec: plan.Spec{
			Test: test, Layer: plan.LayerBTL, SizeBytes: 8, Window: 4, Messages: 10,
			PeerTimeoutNs: client.Cfg.PeerTimeoutNs,
		}}
		if test == plan.TestLat {
			r.Meter.Hist = NewHist()
		}
		// The server keeps its connection alive, but its handlers are of no round.
		err := server.engine.do(func() error {
			_, err := server.btl.Prepare(&Round{Spec: plan.Spec{
				Test: plan.TestPutBW, SizeBytes: 8, Window: 4,
			}, Server: true})
			for tag := tagData; tag <= tagPutSeen && err == nil; tag++ {
				err = server.btl.m.Handle(tag, func(*btl.Endpoint, btl.Tag, []byte) {})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = client.engine.do(func() error {
			if _, err := client.btl.Prepare(r); err != nil {
				return err
			}
			return client.btl.Client(r)
		})
		if !errors.Is(err, errStuck) {
			t.Errorf("%s: %v, want %v", test, err, errStuck)
		}
	}
}

// TestSilentRaw has a server's bare endpoint that does not answer.
func TestSilentRaw(t *testing.T) {
	client, _ := localPair(t)
	for _, test := range []string{plan.TestLat, plan.TestBW, plan.TestRate} {
		r := &Round{Spec: plan.Spec{
			Test: test, Layer: plan.LayerRaw, SizeBytes: 8, Window: 4, Messages: 1 << 40,
			PeerTimeoutNs: int64(50 * time.Millisecond),
		}}
		r.Meter.Hist = NewHist()
		err := client.engine.do(func() error {
			l := client.Layer(plan.LayerRaw)
			if _, err := l.Prepare(r); err != nil {
				return err
			}
			return l.Client(r)
		})
		if !errors.Is(err, errSilent) {
			t.Errorf("%s: %v, want %v", test, err, errSilent)
		}
	}
}

// TestHaltedRound ends every loop at once, on both sides.
func TestHaltedRound(t *testing.T) {
	for _, layer := range []string{plan.LayerRaw, plan.LayerBTL} {
		for _, test := range plan.AllTests {
			if layer == plan.LayerRaw && (plan.IsRemote(test) || test == plan.TestLatLoad) {
				continue
			}
			client, server := localPair(t)
			r := &Round{Spec: plan.Spec{
				Test: test, Layer: layer, SizeBytes: 8, Window: 4, Messages: 1 << 40,
				PeerTimeoutNs: int64(time.Hour), Load: 50, LoadBytes: 3000,
			}}
			r.Meter.Hist = NewHist()
			err := server.engine.do(func() (err error) {
				r.Handle, err = server.Layer(layer).Prepare(&Round{Spec: r.Spec, Server: true})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(20*time.Millisecond, func() { r.Halted.Store(true) })
			err = client.engine.do(func() error {
				l := client.Layer(layer)
				if _, err := l.Prepare(r); err != nil {
					return err
				}
				return l.Client(r)
			})
			// A loop that ends between two messages has nothing to complain of.
			if err != nil && !errors.Is(err, ErrHalted) {
				t.Errorf("%v: %v", &r.Spec, err)
			}
		}
	}
}

// TestCollectionsAreCounted has a collection within a measured span, and one outside.
func TestCollectionsAreCounted(t *testing.T) {
	runtime.GC()
	watch := startWatch(new(newWaiter(waiting.Busy, nil)))
	runtime.GC()
	if n := watch.read().Collections; n < 1 {
		t.Errorf("%d collections", n)
	}
	before := time.Now()
	if n := CollectionsSince(before); n != 0 {
		t.Errorf("%d collections since now", n)
	}
	runtime.GC()
	if n := CollectionsSince(before); n < 1 {
		t.Errorf("%d collections since before one", n)
	}
	var u Usage
	u.Add(Usage{Collections: 2})
	u.Add(Usage{Collections: 3})
	if u.Collections != 5 {
		t.Errorf("2 and 3 add up to %d", u.Collections)
	}
}

func TestEnginePanic(t *testing.T) {
	e, err := startEngine(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	if err := e.do(func() error { panic("broken") }); err == nil {
		t.Errorf("%v", err)
	}
	if err := e.do(func() error { return nil }); err != nil {
		t.Errorf("the engine is gone after a panic: %v", err)
	}
}

// TestEngineIdlePanic: a panic between two jobs ends neither the process nor the engine, and the
// next job reports the panic.
func TestEngineIdlePanic(t *testing.T) {
	e, err := startEngine(-1)
	if err != nil {
		t.Fatal(err)
	}
	defer e.stop()
	panicked := make(chan struct{})
	err = e.do(func() error {
		e.idle = func() {
			defer close(panicked)
			panic("broken")
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	<-panicked
	ran := false
	run := func() error {
		ran = true
		return nil
	}
	if err := e.do(run); err == nil || ran {
		t.Errorf("a job of a broken engine: %v, ran %v", err, ran)
	}
	if err := e.always(run); err != nil || !ran {
		t.Errorf("the last job of a broken engine: %v, ran %v", err, ran)
	}
}

func TestEngineBadCPU(t *testing.T) {
	if e, err := startEngine(plan.CPUsMax - 1); err == nil {
		e.stop()
		t.Skip("this machine has that many CPUs")
	}
}
