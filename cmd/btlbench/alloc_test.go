package main

import (
	"errors"
	"runtime"
	"testing"
	"time"

	"gobtl/btl"
)

// localPair opens both sides in this process, without a control connection.
func localPair(t testing.TB) (client, server *side) {
	t.Helper()
	cfg := sideConfig{
		Provider: "mem/local", Layers: []string{layerRaw, layerBTL},
		PeerTimeoutNs: int64(5 * time.Second), TimeoutNs: int64(5 * time.Second),
	}
	open := func(cfg sideConfig) *side {
		s, err := openSide(cfg, nodeHint{}, -1)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.close)
		return s
	}
	client = open(cfg)
	cfg.server = true
	server = open(cfg)
	connected := make(chan error)
	go func() { connected <- server.connect(client.offers()) }()
	if err := client.connect(server.offers()); err != nil {
		t.Fatal(err)
	}
	if err := <-connected; err != nil {
		t.Fatal(err)
	}
	return client, server
}

// localRound runs one round between two local sides and returns the client's and the server's view.
func localRound(t testing.TB, client, server *side, spec roundSpec) (c, s *round) {
	t.Helper()
	spec.PeerTimeoutNs = int64(5 * time.Second)
	c, s = &round{roundSpec: spec}, &round{roundSpec: spec, server: true}
	if isLatency(spec.Test) {
		c.meter.hist = newHist()
	}
	prepare := func(on *side, r *round) (handle uint64) {
		err := on.engine.do(func() (err error) {
			handle, err = on.layer(spec.Layer).prepare(r)
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
	there, here := server.layer(spec.Layer), client.layer(spec.Layer)
	go func() { ended <- server.engine.do(func() error { return there.server(s) }) }()
	if err := client.engine.do(func() error { return here.client(c) }); err != nil {
		t.Fatalf("%v: %v", &spec, err)
	}
	s.stopped.Store(true)
	if err := <-ended; err != nil {
		t.Fatalf("%v: server: %v", &spec, err)
	}
	return c, s
}

// raceDetector says whether the tests run under the race detector.
var raceDetector bool

// notRaced skips a test under the race detector, which makes it ten times as long: TestAllTests
// shows it the same loops and goroutines.
func notRaced(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("other tests show the race detector the same loops and goroutines")
	}
}

// TestNoAllocations compares a long round with a short one: what they differ by is what a message
// costs, on both sides together.
func TestNoAllocations(t *testing.T) {
	notRaced(t)
	client, server := localPair(t)
	const short, long = 500, 2500
	mallocs := func(spec roundSpec, messages int64) uint64 {
		spec.Messages = messages
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		localRound(t, client, server, spec)
		runtime.ReadMemStats(&after)
		return after.Mallocs - before.Mallocs
	}
	for _, layer := range []string{layerRaw, layerBTL} {
		for _, test := range allTests {
			for _, size := range []int{8, 1200, 4000} {
				spec := roundSpec{
					Test: test, Layer: layer, SizeBytes: size, Window: 32, Load: loadMax, LoadBytes: 3000,
				}
				offer := client.layer(layer).offer()
				if skipReason(&offer, test, size) != "" {
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
	client.cfg.PeerTimeoutNs = int64(50 * time.Millisecond)
	for _, test := range []string{testLat, testBW} {
		r := &round{roundSpec: roundSpec{
			Test: test, Layer: layerBTL, SizeBytes: 8, Window: 4, Messages: 10,
			PeerTimeoutNs: client.cfg.PeerTimeoutNs,
		}}
		if test == testLat {
			r.meter.hist = newHist()
		}
		// The server keeps its connection alive, but its handlers are of no round.
		err := server.engine.do(func() error {
			_, err := server.btl.prepare(&round{roundSpec: roundSpec{
				Test: testPutBW, SizeBytes: 8, Window: 4,
			}, server: true})
			for tag := tagData; tag <= tagPutSeen && err == nil; tag++ {
				err = server.btl.m.Handle(tag, func(*btl.Endpoint, btl.Tag, []byte) {})
			}
			return err
		})
		if err != nil {
			t.Fatal(err)
		}
		err = client.engine.do(func() error {
			if _, err := client.btl.prepare(r); err != nil {
				return err
			}
			return client.btl.client(r)
		})
		if !errors.Is(err, errStuck) {
			t.Errorf("%s: %v, want %v", test, err, errStuck)
		}
	}
}

// TestSilentRaw has a server's bare endpoint that does not answer.
func TestSilentRaw(t *testing.T) {
	client, _ := localPair(t)
	for _, test := range []string{testLat, testBW, testRate} {
		r := &round{roundSpec: roundSpec{
			Test: test, Layer: layerRaw, SizeBytes: 8, Window: 4, Messages: 1 << 40,
			PeerTimeoutNs: int64(50 * time.Millisecond),
		}}
		r.meter.hist = newHist()
		err := client.engine.do(func() error {
			l := client.layer(layerRaw)
			if _, err := l.prepare(r); err != nil {
				return err
			}
			return l.client(r)
		})
		if !errors.Is(err, errSilent) {
			t.Errorf("%s: %v, want %v", test, err, errSilent)
		}
	}
}

// TestHaltedRound ends every loop at once, on both sides.
func TestHaltedRound(t *testing.T) {
	for _, layer := range []string{layerRaw, layerBTL} {
		for _, test := range allTests {
			if layer == layerRaw && (isPut(test) || test == testLatLoad) {
				continue
			}
			client, server := localPair(t)
			r := &round{roundSpec: roundSpec{
				Test: test, Layer: layer, SizeBytes: 8, Window: 4, Messages: 1 << 40,
				PeerTimeoutNs: int64(time.Hour), Load: 50, LoadBytes: 3000,
			}}
			r.meter.hist = newHist()
			err := server.engine.do(func() (err error) {
				r.Handle, err = server.layer(layer).prepare(&round{roundSpec: r.roundSpec, server: true})
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			time.AfterFunc(20*time.Millisecond, func() { r.halted.Store(true) })
			err = client.engine.do(func() error {
				l := client.layer(layer)
				if _, err := l.prepare(r); err != nil {
					return err
				}
				return l.client(r)
			})
			// A loop that ends between two messages has nothing to complain of.
			if err != nil && !errors.Is(err, errHalted) {
				t.Errorf("%v: %v", &r.roundSpec, err)
			}
		}
	}
}

// TestCollectionsAreCounted has a collection within a measured span, and one outside.
func TestCollectionsAreCounted(t *testing.T) {
	runtime.GC()
	watch := startWatch()
	runtime.GC()
	if n := watch.read().Collections; n < 1 {
		t.Errorf("%d collections", n)
	}
	before := time.Now()
	if n := collectionsSince(before); n != 0 {
		t.Errorf("%d collections since now", n)
	}
	runtime.GC()
	if n := collectionsSince(before); n < 1 {
		t.Errorf("%d collections since before one", n)
	}
	var u usage
	u.add(usage{Collections: 2})
	u.add(usage{Collections: 3})
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

func TestEngineBadCPU(t *testing.T) {
	if e, err := startEngine(cpusMax - 1); err == nil {
		e.stop()
		t.Skip("this machine has that many CPUs")
	}
}
