package page

import (
	"bytes"
	"fmt"
	"strings"
	"testing"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
)

// sample is a run with a test of latency and one of a flow.
func sample(name string, factor float64) *Run {
	r := &Run{Name: name}
	for _, size := range []int{0, 8, 64} {
		r.Runs = append(r.Runs, measure.RunRecord{
			Test: plan.TestLat, Layer: plan.LayerBTL, SizeBytes: size, Window: 64, Streams: 1,
			Latency: &layers.LatencyStats{P50: 2 * factor, P99: 9, P999: 10, P9999: 11, Max: 12},
		}, measure.RunRecord{
			Test: plan.TestBW, Layer: plan.LayerBTL, SizeBytes: size, Window: 64, Streams: 2,
			Bandwidth: 1000 * factor, Rate: 77, Retransmits: 5,
			Intervals: []*measure.IntervalRecord{
				{EndS: 1, Bandwidth: 3},
				{StartS: 1, EndS: 2, Bandwidth: 4},
				{StartS: 2, EndS: 2.01, Bandwidth: 99},
			},
		})
	}
	return r
}

// TestPage holds that a page has the figures, and refers to nothing outside of it.
func TestPage(t *testing.T) {
	var b bytes.Buffer
	err := Write(&b, []*Run{sample("one", 1), sample("<b>&two", 0.5)})
	if err != nil {
		t.Fatal(err)
	}
	text := b.String()
	for _, bad := range []string{"://", "src=", "@import", "url(", "<script", "<b>"} {
		if strings.Contains(text, bad) {
			t.Errorf("the page has %q", bad)
		}
	}
	for _, want := range []string{
		"<td>one</td>", "&lt;b&gt;&amp;two", "<h2 id=\"lat\">Latency: ping-pong</h2>",
		"<td>8</td><td>2</td><td>btl</td><td>1</td><td>1</td><td>9</td><td>10</td><td>11</td>" +
			"<td>12</td><td>0</td><td>0.50</td>",
		"<td>64</td><td>1</td><td>btl</td><td>2</td><td>64</td><td>1000</td><td>8</td><td>77</td>" +
			"<td>5</td><td></td>",
		"by time", "1 one btl p99", "two btl", "ratio to the first", "<td>no</td>",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page has no %q", want)
		}
	}
	if n := strings.Count(text, "<svg"); n != 3 {
		t.Errorf("%d plots, want 3", n)
	}
	b.Reset()
	err = Write(&b, []*Run{{Name: "empty"}})
	if err != nil || !strings.Contains(b.String(), "Nothing was") {
		t.Errorf("a run of nothing: %v\n%s", err, b.String())
	}
}

// TestTimePlot leaves out what is too short to tell anything.
func TestTimePlot(t *testing.T) {
	run := sample("one", 1)
	run.Number = 1
	l := timePlot(plan.TestBW, []row{{run, &run.Runs[5]}})
	if len(l.Series) != 1 || fmt.Sprint(l.Series[0].X, l.Series[0].Y) != "[1 2] [3 4]" {
		t.Errorf("%+v", l.Series)
	}
}

// TestRead reads both forms of a report, and says what else a file is.
func TestRead(t *testing.T) {
	document := `{"schema": "gobtl-bench/1", "version": "v1", "runs": [{"test": "lat"}]}`
	for _, text := range []string{
		document,
		`{"event":"start","data":{"schema":"gobtl-bench/1"}}` + "\n" +
			`{"event":"interval","data":{}}` + "\n" + `{"event":"end","data":` + document + "}\n",
	} {
		r, err := Read("dir/file.json", strings.NewReader(text))
		if err != nil || r.Name != "file.json" || r.Version != "v1" || len(r.Runs) != 1 {
			t.Errorf("%+v, %v of %s", r, err, text)
		}
	}
	for text, want := range map[string]string{
		"":                                    "has no report",
		`{"event":"start","data":{}}`:         "has no report",
		"size  layer":                         "is not JSON",
		`{"schema":"gobtl-compare/1"}`:        `has the schema "gobtl-compare/1"`,
		`{"schema":"gobtl-bench/1","runs":7}`: "cannot unmarshal",
	} {
		_, err := Read("f", strings.NewReader(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}
