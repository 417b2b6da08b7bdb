package measure

import (
	"bytes"
	"encoding/csv"
	"encoding/json"
	"errors"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/perf/benchfmt"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// sample is a document as a run over both layers makes it: lat and bw, three rounds.
func sample() *Document {
	f := &plan.Flags{
		Test: plan.TestList{plan.TestLat, plan.TestBW}, Size: plan.SizeList{8}, Layer: plan.LayerBoth,
		Rounds: 3, ProviderReason: "no RDMA hardware",
	}
	d := NewDocument("pair", f)
	d.Sides.Client.Provider.Provider = "ofi/udp"
	d.Sides.Client.Host = layers.HostFacts{
		Machine: report.Machine{CPUModel: "Some CPU", OS: "linux", Arch: "amd64", Go: "go1.26"},
	}
	d.Sides.Server.Host.PinnedCPU = 1
	d.Sides.Client.Layers = map[string]layers.Facts{
		plan.LayerRaw: {MTUBytes: 1472},
		plan.LayerBTL: {
			MTUBytes: 1472, Profile: "usnic", RecvCapacity: 83, RecvBufferBytes: 8 << 20,
		},
	}
	b := &Bench{Flags: f, Doc: d}
	for _, test := range f.Test {
		c := &combination{
			test: test, sizeBytes: 8, window: 64, measured: make(map[variant]*measurement),
		}
		for _, name := range f.Layers() {
			c.variants = append(c.variants, variant{layer: name})
			m := newMeasurement(c, variant{layer: name})
			for i := range 3 {
				m.add([]*session.Outcome{sampleOutcome(test, name, int64(i))})
			}
			c.measured[variant{layer: name}] = m
		}
		b.report(c)
		d.Runs = append(d.Runs, c.runs...)
	}
	return d
}

// sampleOutcome is a round in which btl takes twice as long as raw, and round i is slower by i.
func sampleOutcome(test, layer string, i int64) *session.Outcome {
	factor := int64(1)
	o := &session.Outcome{}
	if layer == plan.LayerBTL {
		factor = 2
		o.Client.Counters = layers.Counters{
			SegmentsSent: 100, Retransmits: 1, All: map[string]uint64{"gobtl_x_total": 5},
		}
		o.Server.Counters = layers.Counters{SegmentsSent: 100, Duplicates: 2}
	}
	o.Client.Usage = layers.Usage{WallNs: 100, CPUNs: 100, Collections: 1}
	o.Server.Usage = layers.Usage{WallNs: 100, CPUNs: 150}
	o.Meter.Messages, o.Meter.Bytes = 1000, 8000
	o.Meter.Elapsed = time.Duration(factor*(i+1)) * time.Millisecond
	if plan.IsLatency(test) {
		o.Meter.Hist = layers.NewHist()
		for range 500 {
			o.Meter.Hist.Record(factor * (i + 1) * 300) // Small enough to be exact.
		}
	}
	return o
}

func TestRecord(t *testing.T) {
	d := sample()
	if len(d.Runs) != 4 {
		t.Fatalf("%d runs", len(d.Runs))
	}
	raw, btl, bw := &d.Runs[0], &d.Runs[1], &d.Runs[3]
	if raw.Iterations != 1500 || raw.Latency.P50 != 0.3 || raw.RatioToRaw != nil {
		t.Errorf("raw: %+v %+v", raw, raw.Latency)
	}
	if btl.Latency.P50 != 0.6 || btl.Latency.Min != 0.3 || *btl.RatioToRaw != 2 {
		t.Errorf("btl: p50 %v, min %v, ratio %v", btl.Latency.P50, btl.Latency.Min, *btl.RatioToRaw)
	}
	if btl.Retransmits != 3 || btl.Duplicates != 6 || btl.SegmentsSent != 600 ||
		btl.RetransmitRatio != 0.005 || btl.Counters.Client["gobtl_x_total"] != 15 {
		t.Errorf("btl counts: %+v", btl)
	}
	// The middle of 2, 4 and 6 ms for 1000 messages of 8 bytes.
	if bw.Rate != 250000 || bw.Bandwidth != 2 || bw.Latency != nil || *bw.RatioToRaw != 0.5 {
		t.Errorf("bw: %v messages/s, %v MB/s, ratio %v", bw.Rate, bw.Bandwidth, *bw.RatioToRaw)
	}
	if bw.CPUPercent.Client != 100 || bw.CPUPercent.Server != 150 {
		t.Errorf("CPU: %+v", bw.CPUPercent)
	}
}

// TestRatioIsPaired has a machine that becomes ten times slower half-way: the rounds are compared
// each with its neighbour, so the ratio stays what it was.
func TestRatioIsPaired(t *testing.T) {
	c := &combination{test: plan.TestBW, sizeBytes: 8, window: 1}
	raw := newMeasurement(c, variant{layer: plan.LayerRaw})
	btl := newMeasurement(c, variant{layer: plan.LayerBTL})
	for _, speed := range []float64{10, 10, 1, 1, 1} {
		raw.rounds = append(raw.rounds, roundRecord{Bandwidth: 100 * speed})
		btl.rounds = append(btl.rounds, roundRecord{Bandwidth: 80 * speed})
	}
	btl.rounds = btl.rounds[:4] // Interrupted.
	if got := *btl.ratioTo(raw); got != 0.8 {
		t.Errorf("ratio %v, want 0.8", got)
	}
}

// TestJSONSchema holds the names that the schema promises.
func TestJSONSchema(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, FormatJSON, sample()); err != nil {
		t.Fatal(err)
	}
	decoder := json.NewDecoder(&out)
	var d map[string]any
	if err := decoder.Decode(&d); err != nil {
		t.Fatal(err)
	}
	if decoder.More() {
		t.Error("more than one document")
	}
	if d["schema"] != "gobtl-bench/1" {
		t.Errorf("schema %v", d["schema"])
	}
	for i, r := range d["runs"].([]any) {
		run := r.(map[string]any)
		for _, name := range []string{
			"test", "layer", "provider", "profile", "size_bytes", "iterations", "latency_us",
			"bandwidth_mb_per_s", "messages_per_s", "retransmits", "duplicates", "verified_bytes",
			"corrupt_bytes", "cpu_percent", "ratio_to_raw", "rounds", "window", "segments_sent",
			"missing_messages", "duplicated_messages", "lost_datagrams", "counters",
			"ns_per_message", "garbage_collections", "load", "load_mb_per_s", "ratio_to_idle",
			"retransmit_ratio", "at_end",
		} {
			if _, ok := run[name]; !ok {
				t.Errorf("run %d has no %q", i, name)
			}
		}
		cpu := run["cpu_percent"].(map[string]any)
		if _, ok := cpu["client"].(float64); !ok || len(cpu) != 2 {
			t.Errorf("run %d: cpu_percent %v", i, cpu)
		}
		latency, ok := run["latency_us"].(map[string]any)
		if ok != plan.IsLatency(run["test"].(string)) {
			t.Errorf("run %d: latency_us %v", i, run["latency_us"])
		}
		for _, name := range []string{"min", "p50", "p90", "p99", "p999", "max", "mean"} {
			if _, found := latency[name].(float64); ok && !found {
				t.Errorf("run %d: no latency_us.%s", i, name)
			}
		}
	}
}

func TestCSV(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, formatCSV, sample()); err != nil {
		t.Fatal(err)
	}
	lines, err := csv.NewReader(&out).ReadAll()
	if err != nil || len(lines) != 5 {
		t.Fatalf("%d lines, %v", len(lines), err)
	}
	at := func(line int, column string) string { return lines[line][slices.Index(lines[0], column)] }
	if at(4, "ns_per_message") != "4000" || at(2, "ns_per_message") != "" ||
		at(2, "window") != "64" || at(2, "retransmit_ratio") != "0.005" || at(2, "load") != "" ||
		at(2, "garbage_collections_client") != "3" {
		t.Errorf("%v", lines)
	}
	if at(2, "latency_us_p50") != "0.6" || at(4, "latency_us_p50") != "" ||
		at(4, "ratio_to_raw") != "0.5" || at(1, "ratio_to_raw") != "" || at(2, "retransmits") != "3" {
		t.Errorf("%v", lines)
	}
}

// TestGobench reads the format with benchstat's own reader.
func TestGobench(t *testing.T) {
	var out bytes.Buffer
	if err := Write(&out, formatGobench, sample()); err != nil {
		t.Fatal(err)
	}
	results := 0
	for r := benchfmt.NewReader(&out, "sample"); r.Scan(); {
		switch rec := r.Result().(type) {
		case *benchfmt.SyntaxError:
			t.Error(rec)
		case *benchfmt.Result:
			results++
			if rec.GetConfig("cpu") != "Some CPU" {
				t.Errorf("cpu %q", rec.GetConfig("cpu"))
			}
			base, parts := rec.Name.Parts()
			if s := string(base); s != "Lat" && s != "Bw" || len(parts) < 3 {
				t.Errorf("name %s in %q", base, parts)
			}
			if v, ok := rec.Value("sec/op"); !ok || v <= 0 {
				t.Errorf("%s: no time", rec.Name)
			}
		}
	}
	if results != 12 {
		t.Errorf("%d results, want a line per round", results)
	}
}

// TestCrowded: a report of sides that poll all the time on CPUs of others says what to try.
func TestCrowded(t *testing.T) {
	const hint = "--wait adaptive"
	for _, tc := range []struct {
		wait    string
		crowded uint64
		want    bool
	}{{"busy", 1, true}, {"busy", 0, false}, {"adaptive", 1, false}} {
		d := sample()
		d.Config.Wait, d.Runs[0].Waits.Server.Crowded = tc.wait, tc.crowded
		var b strings.Builder
		if err := writeTable(&b, d); err != nil {
			t.Fatal(err)
		}
		if strings.Contains(b.String(), hint) != tc.want {
			t.Errorf("%+v: %s", tc, b.String())
		}
	}
	if got := pinText(-1, -1); got != "not pinned" {
		t.Error(got)
	}
}

func TestTable(t *testing.T) {
	d := sample()
	d.Skipped = []skipRecord{
		{Test: plan.TestLat, Layer: plan.LayerRaw, SizeBytes: 4 << 10, Reason: "too large"},
		{Test: plan.TestPutLat, Layer: plan.LayerRaw, SizeBytes: 4 << 10, Reason: "no puts"},
		{Test: plan.TestLat, Layer: plan.LayerRaw, SizeBytes: 8 << 10, Reason: "too large"},
	}
	var out bytes.Buffer
	if err := Write(&out, formatText, d); err != nil {
		t.Fatal(err)
	}
	text := out.String()
	for _, want := range []string{
		"Latency: ", "Bandwidth: ", "p99.9", "btl/raw", "2.00", "0.50",
		"left out: lat (raw) of 4K, 8K: too large\n",
		"pinned to CPU 0 and 1",
		"network: ofi/udp (no RDMA hardware)\n",
		"btl: datagrams of 1472 B, receive buffer: at least 83 datagrams (8192 KiB), profile usnic\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("no %q in\n%s", want, text)
		}
	}
	for line := range strings.Lines(text) {
		if strings.HasSuffix(line, " \n") {
			t.Errorf("trailing space: %q", line)
		}
	}
}

// TestDetails has the verbose report tell what both sides knew of the path and of the provider, and
// counted; the usual one does not.
func TestDetails(t *testing.T) {
	d := sample()
	r := &d.Runs[1]
	r.AtEnd.Client = layers.State{
		Path: &layers.PathRecord{RoundTripUs: 12.5, LeastUs: 9, WindowPackets: 32, SlowStart: true},
		Fabric: []layers.AttrRecord{
			{Name: "segmentation offload", Value: "on"},
			{Name: "socket errors survived", Value: "3"},
		},
	}
	r.AtEnd.Server = layers.State{
		Path: &layers.PathRecord{RoundTripUs: 13.5, WindowPackets: 64, InFlight: 1},
		Fabric: []layers.AttrRecord{
			{Name: "segmentation offload", Value: "off"},
			{Name: "datagrams lost to a full receive buffer", Value: "7"},
		},
	}
	want := []string{
		"lat 8 (btl)|client|server",
		"round trip, us|12.5|13.5", "its deviation, us|0|0", "least round trip, us|9|0",
		"window, packets|32, slow start|64", "in flight, packets|0|1",
		"segmentation offload|on|off", "socket errors survived|3|-",
		"datagrams lost to a full receive buffer|-|7", "gobtl_x_total|15|-",
	}
	for _, verbose := range []bool{true, false} {
		d.Verbose = verbose
		var out bytes.Buffer
		if err := Write(&out, formatText, d); err != nil {
			t.Fatal(err)
		}
		var got []string
		spaces := regexp.MustCompile("  +")
		for line := range strings.Lines(out.String()) {
			got = append(got, spaces.ReplaceAllString(strings.TrimSpace(line), "|"))
		}
		for _, line := range want {
			if slices.Contains(got, line) != verbose {
				t.Errorf("verbose %v, line %q\n%s", verbose, line, out.String())
			}
		}
	}
}

// TestStreams has the verbose report show each of several streams, and not a single one.
func TestStreams(t *testing.T) {
	d := sample()
	d.Verbose = true
	flow, ping := &d.Runs[3], &d.Runs[1]
	for i := range 3 {
		flow.Rounds[i].Streams = []streamRecord{
			{Bandwidth: float64(1000 * (i + 1)), Rate: 500}, {Bandwidth: 125, Rate: 70},
		}
		ping.Rounds[i].Streams = []streamRecord{
			{Latency: &layers.LatencyStats{P50: 1.5, P99: 2.5, Max: float64(10 * i)}}, {},
		}
	}
	for _, streams := range []int{1, 2} {
		flow.Streams, ping.Streams = streams, streams
		var out strings.Builder
		if err := Write(&out, formatText, d); err != nil {
			t.Fatal(err)
		}
		var got []string
		for line := range strings.Lines(out.String()) {
			got = append(got, strings.Join(strings.Fields(line), " "))
		}
		for _, want := range []string{
			"bw 8 (btl), stream MB/s Gbit/s messages/s", "1 2000.0 16.00 500", "2 125.0 1.00 70",
			"lat 8 (btl), stream p50 us p99 us max us", "1 1.50 2.50 10.00", "2 0.00 0.00 0.00",
		} {
			if slices.Contains(got, want) != (streams > 1) {
				t.Errorf("%d streams: %q in\n%s", streams, want, out.String())
			}
		}
	}
}

// TestExtent: the time of a run is that of all its lines, with the warm-up of each round.
func TestExtent(t *testing.T) {
	f := &plan.Flags{
		Test: plan.TestList{plan.TestLat, plan.TestLatLoad}, Rounds: 5,
		Warmup: plan.Amount{Time: 20 * time.Millisecond},
	}
	b := &Bench{Flags: f}
	todo := []combination{
		{variants: []variant{{}, {}}}, {variants: []variant{{}, {}, {}}}, // two layers, three loads
	}
	for _, tc := range []struct {
		duration   time.Duration
		iterations int64
		want       string
	}{
		{0, 0, "measuring 5 lines of 1s, in 5 rounds: about 5.5s in all"},
		{time.Minute, 0, "measuring 5 lines of 1m0s, in 5 rounds: about 5m1s in all"},
		{0, 100, "measuring 5 lines of 100 messages, in 5 rounds"},
	} {
		f.Duration, f.Iterations = plan.Span(tc.duration), tc.iterations
		if got := b.extent(todo).String(); got != tc.want {
			t.Errorf("%q, want %q", got, tc.want)
		}
	}
	f.Rounds, f.Warmup = 1, plan.Amount{Messages: 9}
	f.Duration, f.Iterations = plan.Span(90*time.Second), 0
	want := "measuring 2 lines of 1m30s, in 1 round: about 3m0s in all"
	if got := b.extent(todo[:1]).String(); got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestNarrowTable leaves out what matters least, and nothing else, until the rest fits.
// TestNarrowScreen: every table, and the line that names its omitted columns, fits 50 columns.
func TestNarrowScreen(t *testing.T) {
	const limit = 50
	runs := sample().Runs[:2]
	for i := range runs {
		runs[i].Retransmits, runs[i].RetransmitRatio, runs[i].SegmentsSent = 1234, 0.0123, 100_000
		runs[i].Rate, runs[i].NsPerMessage, runs[i].Bandwidth = 1234567, 123456.7, 1234.5
	}
	for _, test := range []string{plan.TestLat, plan.TestRate, plan.TestBW} {
		text, dropped := fitTable(columns(test, runs, false), runs, limit)
		if got := report.Columns(text); got > limit {
			t.Errorf("%s has %d columns, want %d:\n%s", test, got, limit, text)
		}
		note := droppedText(dropped, limit)
		if len(dropped) < 5 || report.Columns(note) > limit ||
			strings.Count(note, ",") != len(dropped)-1 || !strings.HasSuffix(note, ")\n") {
			t.Errorf("%s, without %q:\n%s", test, dropped, note)
		}
	}
}

func TestNarrowTable(t *testing.T) {
	d := sample()
	list := func() []column { return columns(plan.TestLat, d.Runs[:2], true) }
	whole, dropped := fitTable(list(), d.Runs[:2], 0)
	if len(dropped) != 0 {
		t.Errorf("without a limit %q are left out", dropped)
	}
	width := report.Columns(whole)
	for _, limit := range []int{width, width - 1, 80, 20} {
		text, dropped := fitTable(list(), d.Runs[:2], limit)
		if got := report.Columns(text); got > limit && limit > 20 {
			t.Errorf("%d columns, want %d:\n%s", got, limit, text)
		}
		if (len(dropped) == 0) != (limit == width) {
			t.Errorf("%d of %d columns: %q left out", limit, width, dropped)
		}
		header, _, _ := strings.Cut(text, "\n")
		for _, name := range []string{"size", "layer", "p50", "p99", "corrupt", "btl/raw"} {
			if !strings.Contains(header, name) {
				t.Errorf("%d columns: no %s in\n%s", limit, name, text)
			}
		}
		for _, name := range dropped {
			if slices.Contains(strings.Fields(header), name) {
				t.Errorf("%d columns: %s was not left out of\n%s", limit, name, text)
			}
		}
		if n := strings.Count(text, "─"); n != report.Columns(text) {
			t.Errorf("%d columns, a rule of %d", report.Columns(text), n)
		}
	}
}

func TestMicroseconds(t *testing.T) {
	for us, want := range map[float64]string{
		0: "0.00", 3.456: "3.46", 99.99: "99.99", 123.45: "123.5", 1234.5: "1234", 65432.1: "65432",
	} {
		if got := microseconds(us); got != want {
			t.Errorf("%v: %s, want %s", us, got, want)
		}
	}
}

func TestVerdict(t *testing.T) {
	for _, c := range []struct {
		run RunRecord
		bad bool
	}{
		{RunRecord{Layer: plan.LayerBTL, VerifiedBytes: 5}, false},
		{RunRecord{Layer: plan.LayerBTL, CorruptBytes: 1}, true},
		{RunRecord{Layer: plan.LayerBTL, MissingMessages: 1}, true},
		{RunRecord{Layer: plan.LayerBTL, DuplicatedMessages: 1}, true},
		{RunRecord{Layer: plan.LayerRaw, MissingMessages: 1, DuplicatedMessages: 1}, false},
		{RunRecord{Layer: plan.LayerRaw, CorruptBytes: 1}, true},
	} {
		d := &Document{Runs: []RunRecord{c.run}}
		if err := d.Verdict(); errors.Is(err, errVerify) != c.bad {
			t.Errorf("%+v: %v", c.run, err)
		}
	}
}

// failingWriter is a full disk.
type failingWriter struct{}

func (failingWriter) Write([]byte) (int, error) { return 0, errors.New("no space left") }

func TestReportToFullDisk(t *testing.T) {
	for _, format := range []string{formatText, FormatJSON, formatCSV, formatGobench} {
		if Write(failingWriter{}, format, sample()) == nil {
			t.Errorf("%s: no error", format)
		}
	}
}
