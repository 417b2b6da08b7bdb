//go:build linux

package main

import (
	"encoding/json"
	"os"
	"os/exec"
	"strings"
	"testing"

	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
)

// runsOf reads the runs of a JSON report.
func runsOf(t *testing.T, report []byte) []measure.RunRecord {
	t.Helper()
	var d struct{ Runs []measure.RunRecord }
	if err := json.Unmarshal(report, &d); err != nil {
		t.Fatalf("%v in\n%s", err, report)
	}
	if len(d.Runs) == 0 {
		t.Fatalf("no runs in\n%s", report)
	}
	return d.Runs
}

// TestParallel has two processes run three streams each. Their intervals, messages and bytes are
// those of all streams.
func TestParallel(t *testing.T) {
	notRaced(t)
	stdout, _ := runProcess(t, strings.Fields("pair -P 3 --provider shm --cpus none --verify "+
		"--test lat,bw,bibw,bw_reverse --size 100 --layer both --window 16 -i 0.1 -t 250ms "+
		"--json-stream")...)
	s := readStream(t, stdout)
	for i := range s.runs {
		r := &s.runs[i]
		var told int64
		for _, iv := range r.Intervals {
			told += iv.Iterations
		}
		for _, p := range r.Rounds[0].Streams {
			if p.Rate <= 0 || (p.Latency == nil) != (r.Latency == nil) {
				t.Errorf("%s %s: a stream has %+v", r.Test, r.Layer, p)
			}
		}
		if r.Streams != 3 || len(r.Rounds[0].Streams) != 3 || told != r.Iterations ||
			r.CorruptBytes != 0 || r.Layer == plan.LayerBTL && r.MissingMessages != 0 {
			t.Errorf("%s %s: %d of %d iterations in the intervals of %+v", r.Test, r.Layer, told,
				r.Iterations, r)
		}
	}
	if len(s.runs) != 4+3 {
		t.Errorf("%d runs", len(s.runs))
	}
	// Messages to count are shared between the streams.
	stdout, _ = runProcess(t, strings.Fields("pair -P 3 --provider shm --cpus none --test lat "+
		"--size 8 --iterations 100 --rounds 2 --warmup 0 --format json")...)
	if r := runsOf(t, stdout)[0]; r.Iterations != 100 || len(r.Rounds) != 2 {
		t.Errorf("%d iterations in %d rounds, want 100 in 2", r.Iterations, len(r.Rounds))
	}
}

// TestClientsTogether has processes measure against one server at the same time. None of them ends
// before the others have begun, because each is told to go on until it hears from the test.
func TestClientsTogether(t *testing.T) {
	notRaced(t)
	addr, stderr := startServe(t, "--clients", "3")
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	type client struct {
		cmd *exec.Cmd
		out *output
	}
	var all []client
	for _, streams := range []string{"1", "2"} {
		c := client{
			exec.Command(self, "run", addr, "--provider", "udp", "--test", "bw", "--size", "64",
				"-P", streams, "-i", "0.1", "-t", "1h", "--json-stream"), newOutput(),
		}
		c.cmd.Env = append(os.Environ(), envRunMain+"=1")
		c.cmd.Stdout, c.cmd.Stderr = c.out, os.Stderr
		if err := c.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		defer func() { _ = c.cmd.Process.Kill() }()
		all = append(all, c)
	}
	for _, c := range all { // Both measure.
		for !strings.Contains(c.out.String(), `"event":"interval"`) {
			<-c.out.wrote
		}
	}
	status, _, refused := runCLI("run", addr, "--provider", "udp")
	if status != exitFailure || !strings.Contains(refused, "this server serves 3 at a time") {
		t.Errorf("a client too many: status %d, %q", status, refused)
	}
	for _, c := range all {
		if err := c.cmd.Process.Signal(os.Interrupt); err != nil {
			t.Fatal(err)
		}
		_ = c.cmd.Wait() // Its status is that of an interrupted process.
		if s := readStream(t, []byte(c.out.String())); len(s.runs) != 1 || s.runs[0].Iterations == 0 {
			t.Errorf("%d runs in\n%s", len(s.runs), c.out)
		}
	}
	if n := strings.Count(stderr.String(), " is done"); n != 3 {
		t.Errorf("%d clients are done, want 3\n%s", n, stderr)
	}
}

// TestRateLimit holds that no stream sends more than --rate says, in either direction.
func TestRateLimit(t *testing.T) {
	notRaced(t)
	const streams, mbPerS, sizeBytes = 2, 2.0, 1000
	stdout, _ := runProcess(t, strings.Fields("pair -P 2 --rate 16M --provider udp --cpus none "+
		"--test bw,bibw,bw_reverse --layer both --size 1000 -t 400ms --rounds 2 --format json")...)
	for _, r := range runsOf(t, stdout) {
		sides := 1.0
		if r.Test == plan.TestBiBW {
			sides = 2
		}
		for _, round := range r.Rounds {
			// A stream may be one message ahead of the time.
			most := streams * sides * (mbPerS + sizeBytes/1e6/round.ElapsedS)
			if round.Bandwidth > most || round.Bandwidth == 0 {
				t.Errorf("%s %s: %.3f MB/s, at most %.3f", r.Test, r.Layer, round.Bandwidth, most)
			}
		}
	}
}

// TestReverse has --reverse and --bidir stand for tests of their own.
func TestReverse(t *testing.T) {
	addr, _ := startServe(t)
	for flag, test := range map[string]string{
		"--reverse": plan.TestReverse, "-R": plan.TestReverse, "--bidir": plan.TestBiBW,
	} {
		d := measureJSON(t, addr, flag, "--test", "lat,bw", "--size", "700", "--iterations", "40",
			"--rounds", "1", "--verify", "--window", "8")
		r := &d.Runs[1]
		if len(d.Runs) != 2 || r.Test != test || r.Iterations < 40 || r.MissingMessages != 0 {
			t.Errorf("%s: %+v", flag, d.Runs)
		}
	}
}
