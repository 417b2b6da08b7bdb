//go:build linux

package main

import (
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"unicode/utf8"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/session"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestServedReport has a server say what it saw of a client, when that has ended.
func TestServedReport(t *testing.T) {
	addr, _, stdout := startServeOut(t)
	measureJSON(t, addr, "--test", "lat,bw,bw_reverse", "--size", "64", "--layer", "both",
		"--iterations", "50", "--rounds", "2", "--warmup", "5")
	for !strings.Contains(stdout.String(), "bw_reverse") {
		<-stdout.wrote
	}
	want := map[string]string{ // received and sent
		"lat raw": "60", "lat btl": "60 60", "bw raw": "60", "bw btl": "60 0", "bw_reverse btl": "0",
	}
	for line := range strings.Lines(stdout.String()) {
		cells := strings.Fields(line)
		if len(cells) != 8 || cells[0] == "test" {
			continue
		}
		name := cells[0] + " " + cells[2]
		got := cells[3] + " " + cells[5]
		if w, ok := want[name]; !ok || !strings.HasPrefix(got, w) {
			t.Errorf("%s: received and sent %s, want %s", name, got, want[name])
		}
		delete(want, name)
	}
	if len(want) != 0 {
		t.Errorf("no lines for %v in\n%s", want, stdout)
	}
}

// TestServedTable holds that the table has a place in 80 columns.
func TestServedTable(t *testing.T) {
	s := &session.Served{Test: "bw_reverse", Layer: "runner", SizeBytes: 4 << 20}
	s.Result = session.RoundResult{
		Tally: layers.Tally{Messages: 1_234_567_890, Bytes: 4e12}, Sent: 1_234_567_890,
		Usage:    layers.Usage{WallNs: 2e12, CPUNs: 1e12},
		Counters: layers.Counters{Retransmits: 1_234_567},
	}
	text := servedTable([]*session.Served{s})
	for line := range strings.Lines(text) {
		if n := utf8.RuneCountInString(strings.TrimRight(line, "\n")); n > 80 {
			t.Errorf("%d columns: %s", n, line)
		}
	}
	if !strings.Contains(text, "2000.0") || !strings.Contains(text, "50\n") {
		t.Errorf("4 TB in 2000 s, at half a CPU, is\n%s", text)
	}
	var out strings.Builder
	w := &servedWriter{w: &out}
	w.write(&net.TCPAddr{}, nil)
	if out.Len() != 0 {
		t.Errorf("a client without a round: %q", out.String())
	}
}

// TestHDR has a process write a log of round trips, as many as the report has.
func TestHDR(t *testing.T) {
	name := filepath.Join(t.TempDir(), "log.hlog")
	stdout, _ := runProcess(t, strings.Fields("pair --provider shm --cpus none --test lat,bw --size "+
		"8,64 --iterations 300 --rounds 3 --format json --hdr "+name)...)
	f, err := os.Open(name)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	counts := make(map[string]int64)
	log := hdrhistogram.NewHistogramLogReader(f)
	for {
		h, err := log.NextIntervalHistogram()
		if err != nil {
			t.Fatal(err)
		}
		if h == nil {
			break
		}
		counts[h.Tag()] += h.TotalCount()
	}
	for _, r := range runsOf(t, stdout) {
		if r.Test == "lat" && (r.Iterations != 300 || r.Latency.P9999 < r.Latency.P999 ||
			r.Latency.P9999 > r.Latency.Max) {
			t.Errorf("%+v", r)
		}
	}
	if len(counts) != 2 || counts["lat/btl/8"] != 300 || counts["lat/btl/64"] != 300 {
		t.Errorf("%v round trips in the log", counts)
	}
	addr, _ := startServe(t)
	status, _, stderr := runCLI("run", addr, "--hdr", filepath.Join(name, "no"))
	if status != exitFailure || !strings.Contains(stderr, "--hdr: ") {
		t.Errorf("a file that cannot be: status %d, %q", status, stderr)
	}
}
