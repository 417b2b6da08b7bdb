package systems

import (
	"errors"
	"math"
	"os"
	"strings"
	"testing"
)

// The files in testdata are what the tools wrote: fi_pingpong 1.17, ucx_perftest 1.13, iperf3 3.12,
// the program in mpi under Open MPI 4.1, and this program's "pair".
func recorded(t *testing.T, name string) []byte {
	t.Helper()
	data, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	return data
}

func near(a, b float64) bool { return math.Abs(a-b) <= 1e-6*math.Abs(b) }

func TestParsePingpong(t *testing.T) {
	us, err := parsePingpong(recorded(t, "fi_pingpong.txt"))
	if err != nil || !near(us, 5715.60) {
		t.Errorf("%v us, %v", us, err)
	}
	for _, text := range []string{
		"", "bytes   #sent   #ack     total       time     MB/sec    usec/xfer   Mxfers/sec\n",
		"bytes usec/xfer\n8 nan\n", "bytes usec/xfer\n8 0\n", "bytes usec/xfer\n8 x\n",
	} {
		if us, err := parsePingpong([]byte(text)); err == nil {
			t.Errorf("%q: %v us", text, us)
		}
	}
}

func TestParseUCX(t *testing.T) {
	for _, c := range []struct {
		file string
		want ucxFigures
	}{
		{"ucx-lat.txt", ucxFigures{5.635, 6514.467, 154}},
		{"ucx-bw.txt", ucxFigures{1.056, 2620.118, 382}},
	} {
		if got, err := parseUCX(recorded(t, c.file)); err != nil || got != c.want {
			t.Errorf("%s: %+v, %v", c.file, got, err)
		}
	}
	got, err := parseUCX([]byte("Final: 3000 5.6 6.0 6.1 1.0 1.0 1,500 1,540\n"))
	if want := (ucxFigures{5.6, 6.1, 1540}); err != nil || got != want {
		t.Errorf("%+v, %v", got, err)
	}
	for _, text := range []string{
		"", "| Test | # | 50 | a | o | a | o | a | o |\n", "1 2 3 0 5 6 7 8\n",
	} {
		if got, err := parseUCX([]byte(text)); err == nil {
			t.Errorf("%q: %+v", text, got)
		}
	}
}

func TestParseMPI(t *testing.T) {
	points := []Point{
		{Latency, 8, 1}, {Latency, 1024, 1}, {Stream, 65536, 64}, {Rate, 8, 64},
	}
	samples, err := parseMPI(recorded(t, "mpi.txt"), points)
	if err != nil || len(samples) != len(points) {
		t.Fatalf("%d samples, %v", len(samples), err)
	}
	for i, want := range []float64{6.56, 7.12517, 34.2697, 1553.78} {
		if s := samples[i]; s.Point != points[i] || !near(s.Value, want) {
			t.Errorf("%+v, want %v at %v", s, want, points[i])
		}
	}
	if samples[0].MedianUs != 6.498 || samples[2].MedianUs != 0 {
		t.Errorf("medians %v and %v", samples[0].MedianUs, samples[2].MedianUs)
	}
	if samples, err := parseMPI([]byte("rate 8 1 5 0\n"), points[3:]); err == nil {
		t.Errorf("another window: %+v", samples)
	}
	// What came before a failure counts; what did not come is named.
	samples, err = parseMPI(recorded(t, "mpi.txt"), append(points, Point{Rate, 8, 512}))
	if len(samples) != 4 || err == nil || !strings.Contains(err.Error(), "512 in flight") {
		t.Errorf("%d samples, %v", len(samples), err)
	}
}

func TestParseIperf(t *testing.T) {
	mb, lost, err := parseIperf(recorded(t, "iperf3-tcp.json"), false)
	if err != nil || !near(mb, 1106820383.8188105/8e6) || lost != 0 {
		t.Errorf("tcp: %v MB/s, %v lost, %v", mb, lost, err)
	}
	mb, lost, err = parseIperf(recorded(t, "iperf3-udp.json"), true)
	if err != nil || !near(mb, 20284400.424478244/8e6) || !near(lost, 0.601) {
		t.Errorf("udp: %v MB/s, %v lost, %v", mb, lost, err)
	}
	for _, text := range []string{string(recorded(t, "iperf3-error.json")), "", "{}", "[]"} {
		if mb, _, err := parseIperf([]byte(text), false); err == nil {
			t.Errorf("%q: %v MB/s", text, mb)
		}
	}
	if said := iperfError(recorded(t, "iperf3-error.json")); !strings.Contains(said, "refused") {
		t.Errorf("error %q", said)
	}
}

func TestParsePair(t *testing.T) {
	points := []Point{{Latency, 8, 1}, {Latency, 65536, 1}}
	samples, err := parsePair(recorded(t, "pair-raw.json"), "raw", points)
	var skipped *SkippedError
	if !errors.As(err, &skipped) || !strings.Contains(skipped.Reasons[points[1]], "one datagram") {
		t.Errorf("skipped: %v", err)
	}
	if len(samples) != 1 || samples[0].Value != 359.238 || samples[0].MedianUs != 74.88 {
		t.Errorf("%+v", samples)
	}
	points = []Point{{Rate, 8, 8}}
	samples, err = parsePair(recorded(t, "pair-rate.json"), "btl", points)
	if err != nil || len(samples) != 1 || !near(samples[0].Value, 143.682) {
		t.Errorf("%+v, %v", samples, err)
	}
	other := []Point{{Rate, 8, 64}}
	if samples, err := parsePair(recorded(t, "pair-rate.json"), "btl", other); err == nil {
		t.Errorf("another window: %+v", samples)
	}
	// A report without what was asked for, and none at all.
	for _, text := range []string{string(recorded(t, "pair-raw.json")), "", "{}"} {
		if samples, err := parsePair([]byte(text), "btl", points); err == nil {
			t.Errorf("%+v", samples)
		}
	}
}

func TestVersions(t *testing.T) {
	for _, c := range []struct{ pattern, text, want string }{
		{ucxVersion, "# Version 1.13.1\n# Git branch", "1.13.1"},
		{ucxVersion, "# Library version: 1.15.0\n", "1.15.0"},
		{ucxVersion, "nothing", "unknown"},
		{mpiVersion, "mpirun (Open MPI) 4.1.4\n\nReport bugs", "4.1.4"},
		{mpiVersion, "HYDRA build details:\n    Version: 4.0.2\n", "unknown"},
		{iperfVersion, "iperf 3.12 (cJSON 1.7.15)\nLinux", "3.12"},
		{fabricVersion, "fi_info: 1.17.0\nlibfabric: 1.17.0\nlibfabric api: 1.17\n", "1.17.0"},
	} {
		if got := firstMatch(c.pattern, []byte(c.text)); got != c.want {
			t.Errorf("%q: %q, want %q", c.text, got, c.want)
		}
	}
}
