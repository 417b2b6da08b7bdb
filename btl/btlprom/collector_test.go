package btlprom_test

import (
	"bufio"
	"fmt"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"
	"github.com/prometheus/client_golang/prometheus/testutil"

	"gobtl/btl"
	"gobtl/btl/btlprom"
	"gobtl/fabric"
	"gobtl/fabric/mem"
)

// newModule opens a module on a network of its own.
func newModule(tb testing.TB, nw *mem.Network) *btl.Module {
	tb.Helper()
	var cfg btl.Config
	infos, err := nw.Provider().GetInfo(fabric.Hints{})
	if err != nil {
		tb.Fatal(err)
	}
	dcfg, err := cfg.DomainConfig(infos[0])
	if err != nil {
		tb.Fatal(err)
	}
	dom, err := nw.Open(dcfg)
	if err != nil {
		tb.Fatal(err)
	}
	m, err := btl.Open(dom, cfg)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := m.Close(); err != nil {
			tb.Error(err)
		}
	})
	return m
}

// exchange sends messages between two modules, and returns the sender.
func exchange(tb testing.TB, messages int) *btl.Module {
	tb.Helper()
	nw := mem.New(mem.Config{})
	a, b := newModule(tb, nw), newModule(tb, nw)
	received := 0
	if err := b.Handle(1, func(*btl.Endpoint, btl.Tag, []byte) { received++ }); err != nil {
		tb.Fatal(err)
	}
	ep, err := a.Connect(a.Now(), b.Name())
	if err != nil {
		tb.Fatal(err)
	}
	now := btl.Time(1)
	pass := func() {
		now += btl.Time(10 * time.Microsecond)
		for _, m := range []*btl.Module{a, b} {
			if _, err := m.Progress(now); err != nil {
				tb.Fatal(err)
			}
		}
	}
	for i := 0; !ep.Connected(); i++ {
		if i == 100000 {
			tb.Fatal("no connection")
		}
		pass()
	}
	for range messages {
		f, err := ep.Alloc(1, 8)
		if err != nil {
			tb.Fatal(err)
		}
		if _, err := ep.Send(ep.Now(), f); err != nil {
			tb.Fatal(err)
		}
		pass()
	}
	for range 1000 { // Beyond the delayed ACK and the age of published counters.
		pass()
	}
	if received != messages {
		tb.Fatalf("received %d of %d messages", received, messages)
	}
	return a
}

func TestLint(t *testing.T) {
	m := exchange(t, 3)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(btlprom.NewCollector(m.Stats, prometheus.Labels{"provider": "mem/local"}))
	problems, err := testutil.GatherAndLint(registry)
	if err != nil {
		t.Fatal(err)
	}
	for _, p := range problems {
		t.Errorf("%s: %s", p.Metric, p.Text)
	}
}

func TestValues(t *testing.T) {
	m := exchange(t, 5)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(btlprom.NewCollector(m.Stats, nil))
	want := `
# HELP gobtl_sends_total Messages given to Send, accepted or refused, by the path that they took.
# TYPE gobtl_sends_total counter
gobtl_sends_total{path="fast"} 5
gobtl_sends_total{path="packed"} 0
gobtl_sends_total{path="queued"} 0
gobtl_sends_total{path="refused"} 0
# HELP gobtl_retransmits_total Packets sent again, by the reason for which they were taken as lost.
# TYPE gobtl_retransmits_total counter
gobtl_retransmits_total{cause="duplicate_ack"} 0
gobtl_retransmits_total{cause="lost"} 0
gobtl_retransmits_total{cause="nack"} 0
gobtl_retransmits_total{cause="probe"} 0
gobtl_retransmits_total{cause="timeout"} 0
# HELP gobtl_endpoints Endpoints open, also those being connected or closed.
# TYPE gobtl_endpoints gauge
gobtl_endpoints 1
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want),
		"gobtl_sends_total", "gobtl_retransmits_total", "gobtl_endpoints")
	if err != nil {
		t.Error(err)
	}
}

// TestScrape reads a scrape over HTTP and compares every counter with the module's own.
func TestScrape(t *testing.T) {
	m := exchange(t, 100)
	registry := prometheus.NewRegistry()
	registry.MustRegister(btlprom.NewCollector(m.Stats, nil))
	server := httptest.NewServer(promhttp.HandlerFor(registry, promhttp.HandlerOpts{}))
	defer server.Close()
	response, err := server.Client().Get(server.URL)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	got := make(map[string]float64)
	lines := bufio.NewScanner(response.Body)
	for lines.Scan() {
		name, value, ok := strings.Cut(lines.Text(), " ")
		if !ok || strings.HasPrefix(name, "#") {
			continue
		}
		if got[name], err = strconv.ParseFloat(value, 64); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	s := m.Stats()
	for _, c := range btl.Counters() {
		v, ok := got[c.String()]
		if !ok || v != float64(s.Get(c)) {
			t.Errorf("%s is %v (present: %v), the module counts %d", c, v, ok, s.Get(c))
		}
	}
	if s.Unaccounted() != 0 {
		t.Errorf("%d packets unaccounted for", s.Unaccounted())
	}
}

// TestTwoModules has two modules in one registry, told apart by a label.
func TestTwoModules(t *testing.T) {
	a, b := exchange(t, 1), exchange(t, 2)
	registry := prometheus.NewPedanticRegistry()
	registry.MustRegister(btlprom.NewCollector(a.Stats, prometheus.Labels{"rail": "0"}),
		btlprom.NewCollector(b.Stats, prometheus.Labels{"rail": "1"}))
	again := btlprom.NewCollector(a.Stats, prometheus.Labels{"rail": "0"})
	if err := registry.Register(again); err == nil {
		t.Error("the same module was registered twice")
	}
	want := `
# HELP gobtl_delivered_total Messages passed to a handler.
# TYPE gobtl_delivered_total counter
gobtl_delivered_total{rail="0"} 0
gobtl_delivered_total{rail="1"} 0
`
	err := testutil.GatherAndCompare(registry, strings.NewReader(want), "gobtl_delivered_total")
	if err != nil {
		t.Error(err)
	}
}

func ExampleNewCollector() {
	snapshot := func() btl.Stats { return btl.Stats{Endpoints: 3} } // Module.Stats
	registry := prometheus.NewRegistry()
	registry.MustRegister(btlprom.NewCollector(snapshot, prometheus.Labels{"rail": "0"}))
	families, err := registry.Gather()
	if err != nil {
		panic(err)
	}
	for _, f := range families {
		if f.GetName() == "gobtl_endpoints" {
			fmt.Println(f.GetName(), f.GetMetric()[0].GetGauge().GetValue())
		}
	}
	// Output: gobtl_endpoints 3
}
