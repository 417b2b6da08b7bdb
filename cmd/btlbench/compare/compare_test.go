package compare

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/btlbench/systems"
)

// fake is a system whose values are given.
type fake struct {
	about   systems.Info
	value   func(round int, p systems.Point) (float64, error)
	absent  error
	skip    map[systems.Point]string
	rounds  map[systems.Workload]int
	journal *[]string
}

func (f *fake) Info() *systems.Info { return &f.about }

func (f *fake) Probe(context.Context, *systems.Host) (string, error) { return "1", f.absent }

func (f *fake) Cannot(p systems.Point) string { return f.skip[p] }

func (f *fake) Measure(_ context.Context, _ *systems.Host, points []systems.Point,
) ([]systems.Sample, error) {
	if f.rounds == nil {
		f.rounds = map[systems.Workload]int{}
	}
	w := points[0].Workload
	f.rounds[w]++
	if f.journal != nil {
		*f.journal = append(*f.journal, string(w)+" "+f.about.ID)
	}
	var samples []systems.Sample
	for _, p := range points {
		x, err := f.value(f.rounds[w], p)
		if err != nil {
			return samples, err
		}
		samples = append(samples, systems.Sample{Point: p, Value: x, MedianUs: x / 2})
	}
	return samples, nil
}

// times is a fake whose values are those of the round number, scaled.
func times(id string, kind systems.Kind, scale float64, journal *[]string) *fake {
	return &fake{
		about: systems.Info{ID: id, Label: "label of " + id, Kind: kind}, journal: journal,
		value: func(round int, _ systems.Point) (float64, error) { return scale * float64(round), nil },
	}
}

// compareFakes runs the comparison over fakes.
func compareFakes(ctx context.Context, rounds int, list ...systems.System) (*Report, error) {
	cfg := &Config{Rounds: rounds, Quick: true, Each: time.Millisecond}
	c := &comparison{
		cfg: cfg, points: systems.Points(true), systems: list, report: newReport(cfg),
		host:   &systems.Host{},
		values: map[valueKey]*Result{}, skipped: map[valueKey]bool{}, failed: map[failKey]int{},
	}
	for _, s := range list {
		c.report.Systems = append(c.report.Systems, *s.Info())
	}
	err := c.complete(ctx)
	return c.report, err
}

// at is a point.
func at(w systems.Workload, sizeBytes, window int) systems.Point {
	return systems.Point{Workload: w, SizeBytes: sizeBytes, Window: window}
}

// TestTurns holds that systems take turns within each workload of each round, and that the first
// place rotates.
func TestTurns(t *testing.T) {
	var journal []string
	_, err := compareFakes(t.Context(), 2,
		times("a", systems.KindPeer, 1, &journal), times("b", systems.KindPeer, 2, &journal))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{
		"latency a", "latency b", "stream b", "stream a", "rate a", "rate b",
		"latency b", "latency a", "stream a", "stream b", "rate b", "rate a",
	}
	if !slices.Equal(journal, want) {
		t.Errorf("%q\nwant %q", journal, want)
	}
}

func TestMediansAndRatios(t *testing.T) {
	ours := times("ours", systems.KindBTL, 2, nil)
	ours.about.RawID = "raw"
	report, err := compareFakes(t.Context(), 5, ours, times("raw", systems.KindRaw, 1, nil),
		times("slow", systems.KindPeer, 16, nil), times("quick", systems.KindPeer, 4, nil),
		times("lossy", systems.KindReference, 1, nil))
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		id            string
		p             systems.Point
		median, toRef float64
		toRaw         float64 // 0 is none
	}{
		// The best peer has the least latency and the greatest rate; what loses is no peer.
		{"ours", at(systems.Latency, 8, 1), 6, 0.5, 2},
		{"ours", at(systems.Rate, 8, 64), 6, 0.125, 2},
		{"raw", at(systems.Latency, 8, 1), 3, 0.25, 0},
		{"quick", at(systems.Latency, 8, 1), 12, 1, 0},
		{"quick", at(systems.Stream, 64<<10, 64), 12, 0.25, 0},
	} {
		r := report.find(c.id, c.p)
		switch {
		case r == nil:
			t.Errorf("%s at %v: no result", c.id, c.p)
		case r.Median != c.median || r.ToBest == nil || *r.ToBest != c.toRef ||
			(r.ToRaw == nil) != (c.toRaw == 0) || r.ToRaw != nil && *r.ToRaw != c.toRaw:
			t.Errorf("%s at %v: %+v, want %+v", c.id, c.p, r, c)
		case r.P50Us != c.median/2:
			t.Errorf("%s at %v: p50 %v", c.id, c.p, r.P50Us)
		}
	}
}

// TestRatioOfRounds holds that a ratio compares what was measured in the same round.
func TestRatioOfRounds(t *testing.T) {
	a := Result{Rounds: []Value{{Round: 1, Value: 8}, {Round: 3, Value: 100}}}
	b := Result{Rounds: []Value{{Round: 2, Value: 1}, {Round: 3, Value: 50}}}
	if r := a.ratioTo(&b); r == nil || *r != 2 {
		t.Errorf("%v", r)
	}
	if r := a.ratioTo(&Result{Rounds: []Value{{Round: 2, Value: 1}}}); r != nil {
		t.Errorf("%v of no common round", *r)
	}
}

// TestFailures holds that a system that fails is reported, keeps what it measured, is left alone
// after a while, and costs the others nothing.
func TestFailures(t *testing.T) {
	bad := times("bad", systems.KindPeer, 1, nil)
	bad.value = func(_ int, p systems.Point) (float64, error) {
		if p.Workload == systems.Latency && p.SizeBytes > 8 {
			return 0, errors.New("no route")
		}
		return 1, nil
	}
	good := times("good", systems.KindPeer, 1, nil)
	report, err := compareFakes(t.Context(), 5, bad, good)
	if err != nil {
		t.Fatal(err)
	}
	if n := len(report.Failures); n != failuresMax {
		t.Errorf("%d failures, want %d", n, failuresMax)
	}
	r := report.find("bad", at(systems.Latency, 8, 1))
	if r == nil || len(r.Rounds) != failuresMax {
		t.Errorf("what came before the failure: %+v", r)
	}
	r = report.find("bad", at(systems.Rate, 8, 1))
	if r == nil || len(r.Rounds) != 5 {
		t.Errorf("the other workloads: %+v", r)
	}
	r = report.find("good", at(systems.Latency, 1024, 1))
	if r == nil || len(r.Rounds) != 5 {
		t.Errorf("the other system: %+v", r)
	}
	failed := "failed: label of bad, latency, round 1: no route"
	if table := report.Text(); !strings.Contains(table, failed) {
		t.Error(table)
	}
	if why := report.GobtlFailed(); why != "" {
		t.Errorf("blamed for a peer: %s", why)
	}
	bad.about.Kind = systems.KindBTL
	report, err = compareFakes(t.Context(), 1, bad, good)
	if err != nil || !strings.Contains(report.GobtlFailed(), "no route") {
		t.Errorf("%q, %v", report.GobtlFailed(), err)
	}
}

// TestInterrupted holds that what was measured before an interruption is reported.
func TestInterrupted(t *testing.T) {
	stop := errors.New("stop")
	ctx, cancel := context.WithCancelCause(t.Context())
	late := times("late", systems.KindPeer, 1, nil)
	late.value = func(round int, p systems.Point) (float64, error) {
		if round == 2 {
			cancel(stop)
		}
		return 1, nil
	}
	report, err := compareFakes(ctx, 5, times("early", systems.KindPeer, 1, nil), late)
	if !errors.Is(err, stop) || !report.Interrupted || len(report.Failures) != 0 {
		t.Errorf("%v, %+v", err, report)
	}
	r := report.find("early", at(systems.Latency, 8, 1))
	if r == nil || len(r.Rounds) < 1 {
		t.Errorf("what came before: %+v", r)
	}
	if !strings.HasPrefix(report.Text(), "interrupted") {
		t.Error("the table does not say that it is not all")
	}
}

// TestSelect holds that systems are chosen by ID, and that a wrong one is named.
func TestSelect(t *testing.T) {
	cfg := &Config{Only: []string{"fi-tcp", "gobtl-udp"}}
	list, err := Systems(cfg)
	if err != nil || len(list) != 2 || list[0].ID != "gobtl-udp" || list[1].ID != "fi-tcp" {
		t.Errorf("%+v, %v", list, err)
	}
	cfg.Only = []string{"fi-pct"}
	if _, err := Systems(cfg); err == nil || !strings.Contains(err.Error(), "fi-pct") {
		t.Errorf("%v", err)
	}
	var all []systems.Info
	for _, table := range []systems.Table{systems.Network, systems.OneHost} {
		list, err := Systems(&Config{Table: table})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, list...)
	}
	seen := map[string]bool{}
	for i := range all {
		id := all[i].ID
		if seen[id] {
			t.Errorf("two systems %s", id)
		}
		seen[id] = true
		if _, ok := lineStyles[id]; !ok {
			t.Errorf("%s has no line style", id)
		}
		raw := all[i].RawID
		if raw != "" && !slices.ContainsFunc(all, func(s systems.Info) bool { return s.ID == raw }) {
			t.Errorf("%s is compared with %s, which is not there", id, raw)
		}
		if all[i].Kind == systems.KindPeer && all[i].Package == "" {
			t.Errorf("no package brings %s", id)
		}
	}
	for id := range lineStyles {
		if !seen[id] {
			t.Errorf("a line style for %s, which is not there", id)
		}
	}
}
