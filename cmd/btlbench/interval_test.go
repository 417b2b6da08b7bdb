//go:build linux

package main

import (
	"bufio"
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"gobtl/cmd/btlbench/measure"
)

// streamed is what a process with --json-stream wrote.
type streamed struct {
	events    []string
	intervals []measure.IntervalRecord
	runs      []measure.RunRecord // of the event end
}

func readStream(t *testing.T, text []byte) (s streamed) {
	t.Helper()
	lines := bufio.NewScanner(bytes.NewReader(text))
	lines.Buffer(nil, 16<<20)
	for lines.Scan() {
		var e struct {
			Event string
			Data  json.RawMessage
		}
		if err := json.Unmarshal(lines.Bytes(), &e); err != nil {
			t.Fatalf("%v in %s", err, lines.Bytes())
		}
		var err error
		switch e.Event {
		case "interval":
			var r measure.IntervalRecord
			err = json.Unmarshal(e.Data, &r)
			s.intervals = append(s.intervals, r)
		case "end":
			var d struct{ Runs []measure.RunRecord }
			err = json.Unmarshal(e.Data, &d)
			s.runs = d.Runs
		}
		if err != nil {
			t.Fatal(err)
		}
		if n := len(s.events); n == 0 || s.events[n-1] != e.Event {
			s.events = append(s.events, e.Event)
		}
	}
	return s
}

// TestIntervals has processes report what each interval measured. The intervals of a run follow
// each other, and together they have what the run has.
func TestIntervals(t *testing.T) {
	notRaced(t)
	const tests = // all that differ in what counts
	"lat,bw,bibw,bw_reverse,rate,lat_load,put_lat,put_bw,notice,get_lat,get_bw,atomic_lat,atomic"
	for _, args := range []string{
		"--provider mem/local --layer both --window 16 --rounds 2 --test " + tests,
		"--provider mem/local --layer runner --test lat,bw,rate --window 16",
	} {
		// The network within one process cannot be reached by another.
		args = strings.Replace(args, "mem/local", "shm", 1)
		stdout, _ := runProcess(t, append([]string{
			"pair", "--size", "8", "-i", "0.1", "-t", "250ms", "--json-stream", "--cpus", "none",
		}, strings.Fields(args)...)...)
		s := readStream(t, stdout)
		if got := strings.Join(s.events, " "); got != "start interval end" {
			t.Errorf("%s: events %s", args, got)
		}
		checkIntervals(t, s)
	}
}

func checkIntervals(t *testing.T, s streamed) {
	t.Helper()
	told := s.intervals
	for i := range s.runs {
		r := &s.runs[i]
		var iterations int64
		end, round := 0.0, 0
		for _, iv := range r.Intervals {
			if iv.Round != round {
				end, round = 0, iv.Round
			}
			if iv.StartS != end || iv.EndS <= iv.StartS || iv.Test != r.Test || iv.Layer != r.Layer ||
				(iv.Latency == nil) != (r.Latency == nil) || iv.Iterations > 0 && iv.Rate <= 0 {
				t.Errorf("%s %s: %+v after %v s", r.Test, r.Layer, iv, end)
			}
			end = iv.EndS
			iterations += iv.Iterations
		}
		if len(r.Intervals) < 2 || iterations != r.Iterations {
			t.Errorf("%s %s: %d of %d iterations in %d intervals", r.Test, r.Layer, iterations,
				r.Iterations, len(r.Intervals))
		}
		told = told[min(len(told), len(r.Intervals)):]
	}
	if len(s.runs) == 0 || len(told) != 0 {
		t.Errorf("%d runs, %d intervals told that no run has", len(s.runs), len(told))
	}
}

// TestIntervalsAsText has a table of what was measured follow the lines of the intervals.
func TestIntervalsAsText(t *testing.T) {
	addr, _ := startServe(t)
	status, stdout, stderr := runCLI("run", addr, "--provider", "mem/local", "--test", "bw",
		"--size", "64", "-i", "100ms", "-t", "0.15")
	lines := strings.Split(stdout, "\n")
	const extent = "measuring 1 line of 150ms, in 1 round: about 200ms in all"
	if status != exitOK || lines[0] != extent || lines[1] != "bw 64 (btl), window 64" ||
		!strings.Contains(lines[3], "0.00-0.1") || !strings.Contains(stdout, "\nBandwidth:") {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
	// A run that fails before its first message says so in the stream as well.
	status, stdout, stderr = runCLI("run", addr, "--provider", "mem/local", "--test", "atomic",
		"--size", "5", "--json-stream")
	if s := readStream(t, []byte(stdout)); status != exitFailure ||
		strings.Join(s.events, " ") != "start error end" {
		t.Errorf("status %d, %q\n%s", status, stderr, stdout)
	}
}
