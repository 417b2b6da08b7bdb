//go:build linux

package recovery

import (
	"bytes"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/reliability"
)

// TestMain lets the processes on the hosts be this test binary.
func TestMain(m *testing.M) {
	if len(os.Args) == 3 && os.Args[1] == roleArg {
		if err := RoleMain(os.Args[2], os.Stdin, os.Stdout); err != nil {
			os.Exit(1)
		}
		return
	}
	os.Exit(m.Run())
}

// TestMeasures runs a short measurement of everything and looks whether the figures make sense.
func TestMeasures(t *testing.T) {
	o := Options{
		Each: 250 * time.Millisecond, Senders: 4, Losses: []float64{0, 0.01}, Limit: 2 * time.Minute,
		Systems: []string{"usnic", "tcp"},
	}
	_, err := reliability.Profile("adaptive")
	adaptive := err == nil
	if adaptive {
		o.Systems = append(o.Systems, "adaptive")
	}
	o.Quick()
	r, err := Run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	t.Log(text.String())
	for _, s := range r.Samples {
		// The others may be too slow for what they are asked.
		if s.Err != "" && s.System == "adaptive" {
			t.Errorf("%s, %s, %s: %s", s.Case, s.Setting, s.System, s.Err)
		}
		for name, v := range s.Values {
			if math.IsNaN(v) || math.IsInf(v, 0) || v < 0 {
				t.Errorf("%s, %s, %s: %s is %v", s.Case, s.Setting, s.System, name, v)
			}
		}
		if s.Case == "loss" && s.Values["round_trips"] > 0 && !slices.IsSorted([]float64{
			s.Values["p50_us"], s.Values["p99_us"], s.Values["p999_us"], s.Values["max_us"],
		}) {
			t.Errorf("%s, %s: latencies %v", s.Setting, s.System, s.Values)
		}
	}
	figure := func(c, setting, system, key string, low, high float64) float64 {
		t.Helper()
		v, ok := r.Median(c, setting, system, key)
		if !ok || v < low || v > high {
			t.Errorf("%s, %s, %s: %s is %v (measured: %v), want %v to %v", c, setting, system, key, v, ok,
				low, high)
		}
		return v
	}
	figure("loss", "0 %", "tcp", "goodput_MBps", 1, 1e5)
	figure("loss", "0 %", "tcp", "p50_us", 1, 1e5)
	figure("loss", "0 %", "usnic", "goodput_MBps", 1, 1e5)
	figure("loss", "1 %", "usnic", "resent_pct", 0.1, 1e4) // the filter drops
	figure("share", "100 KB, one flow", "tcp", "use_pct", 20, 103)
	figure("share", "100 KB, one flow", "usnic", "use_pct", 0, 103) // the bottleneck is one
	if !adaptive {
		t.Log("this build has no profile adaptive")
		return
	}
	clean := figure("loss", "0 %", "adaptive", "goodput_MBps", 1, 1e5)
	figure("loss", "1 %", "adaptive", "goodput_MBps", clean/10, 1e5)
	figure("loss", "1 %", "adaptive", "resent_pct", 0.1, 20)
	figure("share", "100 KB, one flow", "adaptive", "use_pct", 30, 103)
	figure("share", "100 KB, one flow", "adaptive", "resent_pct", 0, 20)
	figure("pause", "200ms", "adaptive", "resent", 0, 500) // of several thousand in flight
	figure("incast", fmt.Sprintf("%d to 1", o.Senders), "adaptive", "complete", float64(o.Senders),
		float64(o.Senders))
}

// TestRxd sees whether libfabric's ofi_rxd is measured at all.
func TestRxd(t *testing.T) {
	o := Options{Cases: []string{"loss"}, Losses: []float64{0}, Limit: time.Minute}
	o.Quick()
	if all, err := o.systems(); err != nil || all[len(all)-1].ID != "rxd" {
		testenv.Missing(t, "this build has no libfabric: cgo and libfabric-dev are missing")
	}
	o.Systems = []string{"rxd"}
	r, err := Run(t, o)
	if err != nil {
		t.Fatal(err)
	}
	for _, key := range []string{"goodput_MBps", "p50_us"} {
		if v, ok := r.Median("loss", "0 %", "rxd", key); !ok || v <= 0 {
			t.Errorf("%s is %v: %+v", key, v, r.Samples)
		}
	}
}

func TestBetween(t *testing.T) {
	ticks := []Tick{
		{T: 100, Bytes: nil}, {T: 200, Bytes: []int64{1000}}, {T: 400, Bytes: []int64{1000, 5}},
	}
	for _, tc := range []struct {
		tag      int
		from, to int64
		want     float64
	}{
		{0, 0, 1000, 1000},
		{0, 100, 150, 500},
		{0, 150, 175, 250},
		{0, 200, 400, 0},
		{1, 300, 400, 2.5},
		{2, 0, 1000, 0},
	} {
		if got := between(ticks, tc.tag, tc.from, tc.to); got != tc.want {
			t.Errorf("tag %d, %d to %d: %v, want %v", tc.tag, tc.from, tc.to, got, tc.want)
		}
	}
	if got := between(nil, 0, 0, 10); got != 0 {
		t.Errorf("nothing: %v", got)
	}
}

func TestLatencyOf(t *testing.T) {
	var ns []int64
	for i := range int64(1000) {
		ns = append(ns, (999-i)*1000)
	}
	if got := *latencyOf(ns); got != (Latency{1000, 499, 989, 998, 999}) {
		t.Errorf("%+v", got)
	}
	if latencyOf(nil) != nil {
		t.Error("of nothing")
	}
}

func TestJain(t *testing.T) {
	for _, tc := range []struct {
		of   []float64
		want float64
	}{
		{[]float64{5, 5, 5, 5}, 1}, {[]float64{1, 0}, 0.5}, {[]float64{0, 0}, 0}, {[]float64{3, 1}, 0.8},
	} {
		if got := jain(tc.of); math.Abs(got-tc.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", tc.of, got, tc.want)
		}
	}
}

// result is two rounds of two systems, one sample of which failed.
func result() *Result {
	sample := func(setting, system string, round int, goodput float64) Sample {
		return Sample{
			Case: "loss", Setting: setting, System: system, Round: round,
			Values: map[string]float64{"goodput_MBps": goodput},
		}
	}
	return &Result{
		Machine: []string{"a machine"},
		Systems: []System{{ID: "usnic", Label: "gobtl usnic"}, {ID: "tcp", Label: "TCP"}},
		Samples: []Sample{
			sample("0 %", "usnic", 1, 100), sample("1 %", "usnic", 1, 20), sample("0 %", "tcp", 1, 50),
			sample("0 %", "usnic", 2, 300), sample("1 %", "usnic", 2, 40), sample("0 %", "tcp", 2, 50),
			{Case: "loss", Setting: "1 %", System: "tcp", Round: 2, Err: "it hung\nfor long"},
		},
	}
}

const wantTable = `a machine

Random loss in both directions, two tests: a stream of messages of 1 MiB, a ping-pong of 8 B

                   MB/s  % of 0  resent %  trips  p50 us  p99 us  p99.9 us  max us
──────────────────────────────────────────────────────────────────────────────────
0 %  gobtl usnic  200.0     100         -      -       -       -         -       -
     TCP           50.0     100         -      -       -       -         -       -
1 %  gobtl usnic   30.0      17         -      -       -       -         -       -
     TCP              -       -         -      -       -       -         -       -

Failed:
loss, 1 %, TCP, round 2: it hung; for long
`

func TestTable(t *testing.T) {
	r := result()
	var text strings.Builder
	if err := r.Write(&text); err != nil {
		t.Fatal(err)
	}
	if text.String() != wantTable {
		t.Errorf("got\n%s\nwant\n%s", text.String(), wantTable)
	}
	var figures strings.Builder
	if err := r.CSV(&figures); err != nil || strings.Count(figures.String(), "\n") != 7 ||
		!strings.Contains(figures.String(), "\nloss,1 %,usnic,2,goodput_MBps,40\n") {
		t.Errorf("CSV: %v\n%s", err, figures.String())
	}
}

func TestUpdateDocs(t *testing.T) {
	const before, after = "# Title\n\n", "\n\nmore\n"
	const docsBegin, docsEnd = "<!-- sockets:begin -->", "<!-- sockets:end -->"
	got, err := result().UpdateDocs([]byte(before + docsBegin + "\nold\n" + docsEnd + after))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, []byte(before+docsBegin)) ||
		!bytes.HasSuffix(got, []byte(docsEnd+after)) ||
		bytes.Contains(got, []byte("old")) || !bytes.Contains(got, []byte("gobtl usnic")) {
		t.Errorf("%s", got)
	}
	for _, bad := range []string{"", docsBegin, docsEnd + "\n" + docsBegin + "\n"} {
		if _, err := result().UpdateDocs([]byte(bad)); err == nil {
			t.Errorf("%q is taken", bad)
		}
	}
}

// TestPlots parses the plots, and looks for a bar of each figure.
func TestPlots(t *testing.T) {
	r := result()
	r.Options.Losses = []float64{0, 0.01}
	plots, err := r.Plots()
	if err != nil {
		t.Fatal(err)
	}
	if len(plots) != len(PlotNames()) {
		t.Errorf("%d plots, %d names", len(plots), len(PlotNames()))
	}
	for _, name := range PlotNames() {
		for d := xml.NewDecoder(strings.NewReader(plots[name])); ; {
			if _, err := d.Token(); errors.Is(err, io.EOF) {
				break
			} else if err != nil {
				t.Fatalf("%s: %v\n%s", name, err, plots[name])
			}
		}
	}
	goodput := plots["sockets-goodput.svg"]
	for _, want := range []string{">17<", ">100<", ">-<", "TCP", "gobtl usnic"} {
		if !strings.Contains(goodput, want) {
			t.Errorf("no %s in\n%s", want, goodput)
		}
	}
}

func TestOptions(t *testing.T) {
	for _, tc := range []struct {
		o    Options
		want string
	}{
		{Options{Systems: []string{"nobody"}}, "no such system"},
		{Options{More: []string{"noset"}}, "want id:name=value"},
		{Options{More: []string{"x:ack_delay"}}, "variant"},
		{Options{More: []string{"x:nothing=1"}}, "variant"},
	} {
		if _, err := tc.o.systems(); err == nil || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%+v: %v, want %q", tc.o, err, tc.want)
		}
	}
	got, err := Options{Systems: []string{"x", "tcp"}, More: []string{"x:ack_delay=1ms"}}.systems()
	if err != nil || len(got) != 2 || got[0].ID != "x" || got[1].ID != "tcp" {
		t.Errorf("%+v, %v", got, err)
	}
}
