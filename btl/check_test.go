package btl

import (
	"strings"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
)

// checkBench is a module with four peers, of which each has a dozen packets in flight.
func checkBench(tb testing.TB) *Module {
	b := newBench(tb, mem.Config{}, 5, regressConfig())
	m := b.mods[0]
	for i := range 4 {
		ep := b.connect(0, i+1)
		for range 3 {
			send(tb, ep, 4000)
		}
	}
	if _, err := m.Progress(b.now.Add(time.Microsecond)); err != nil {
		tb.Fatal(err)
	}
	return m
}

func BenchmarkCheck(b *testing.B) {
	m := checkBench(b)
	b.ReportAllocs()
	for b.Loop() {
		if err := m.Check(); err != nil {
			b.Fatal(err)
		}
	}
	b.ReportMetric(float64(inFlight(m)), "packets")
}

func TestCheckAllocatesNothing(t *testing.T) {
	m := checkBench(t)
	if n := testing.AllocsPerRun(100, func() {
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}); n != 0 {
		t.Errorf("Check allocates %v times", n)
	}
}

// TestCheckSeesKeptBytes checks that Check finds memory of a message that no handler has kept.
func TestCheckSeesKeptBytes(t *testing.T) {
	m := checkBench(t)
	m.rx.Keeping.Deliver(new(frag.Message))
	if err := m.Check(); err == nil || !strings.Contains(err.Error(), "bytes kept") {
		t.Errorf("Check says %v", err)
	}
	m.closed = true // nothing else may be done with it
}
