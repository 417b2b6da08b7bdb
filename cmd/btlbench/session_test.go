package main

import (
	"context"
	"encoding/json"
	"fmt"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/testenv"
)

// startServe runs serve in this process and returns its address. It ends with the test.
func startServe(t *testing.T, args ...string) (addr string, stderr *output) {
	t.Helper()
	addr, stderr, _ = startServeOut(t, args...)
	return addr, stderr
}

// startServeOut is startServe with the standard output.
func startServeOut(t *testing.T, args ...string) (addr string, stderr, stdout *output) {
	t.Helper()
	stdout, stderr = newOutput(), newOutput()
	ctx, cancel := context.WithCancelCause(context.Background())
	c := &cli{}
	env := &environment{stdout: stdout, stderr: stderr, ctx: ctx}
	parser, err := newParser(c, env, func(int) {})
	if err != nil {
		t.Fatal(err)
	}
	kctx, err := parser.Parse(append([]string{"serve", "--listen", "127.0.0.1:0"}, args...))
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- kctx.Run() }()
	t.Cleanup(func() {
		cancel(&signalError{syscall.SIGTERM})
		select {
		case <-done:
		case <-time.After(10 * time.Second):
			t.Error("serve does not end")
		}
	})
	select {
	case <-stdout.wrote:
	case err := <-done:
		t.Fatalf("serve: %v", err)
	}
	addr, ok := strings.CutPrefix(strings.TrimSpace(stdout.String()), listeningPrefix)
	if !ok {
		t.Fatalf("serve wrote %q", stdout)
	}
	return addr, stderr, stdout
}

// measureJSON runs a client in this process and returns its report.
func measureJSON(t *testing.T, addr string, args ...string) *measure.Document {
	t.Helper()
	args = append([]string{"run", addr, "--provider", "mem/local", "--format", "json"}, args...)
	status, stdout, stderr := runCLI(args...)
	if status != exitOK {
		t.Fatalf("status %d: %s", status, stderr)
	}
	d := new(measure.Document)
	// The configuration is written for people, and is not read back.
	var raw map[string]json.RawMessage
	if err := json.Unmarshal([]byte(stdout), &raw); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	delete(raw, "config")
	again, err := json.Marshal(raw)
	if err == nil {
		err = json.Unmarshal(again, d)
	}
	if err != nil {
		t.Fatal(err)
	}
	return d
}

// TestAllTests runs every test on both layers, verified, between two sides in this process.
func TestAllTests(t *testing.T) {
	addr, _ := startServe(t)
	sizes := []int{0, 1, 8, 40, 2000, 70000}
	if testenv.Race {
		sizes = []int{8, 70000}
	}
	d := measureJSON(t, addr, "--test", "all", "--size", list(sizes),
		"--layer", "both", "--verify", "--iterations", "130", "--rounds", "2", "--warmup", "3",
		"--window", "16", "--load-size", "5000")
	type key struct {
		test, layer string
		size        int
		load        string
	}
	runs := make(map[key]*measure.RunRecord)
	for i := range d.Runs {
		r := &d.Runs[i]
		runs[key{r.Test, r.Layer, r.SizeBytes, r.Load}] = r
	}
	loads := map[string][]string{plan.TestLatLoad: {"idle", "max"}}
	for _, test := range plan.AllTests {
		for _, size := range sizes {
			for _, layer := range []string{plan.LayerRaw, plan.LayerBTL} {
				skip := plan.IsRemote(test) && (size == 0 || layer == plan.LayerRaw) ||
					plan.IsAtomic(test) && size != plan.AtomicBytes ||
					layer == plan.LayerRaw && (test == plan.TestLat && size > 1472 ||
						test == plan.TestLatLoad || test == plan.TestReverse)
				for _, load := range append(loads[test], "")[:max(1, len(loads[test]))] {
					k := key{test, layer, size, load}
					r := runs[k]
					if (r == nil) != skip {
						t.Errorf("%v: run %v, should be skipped: %v", k, r, skip)
					}
					if r != nil {
						checkRun(t, r)
					}
				}
			}
		}
	}
	if len(d.Skipped) == 0 {
		t.Error("nothing is reported as skipped")
	}
}

// list returns numbers as the argument of a flag.
func list(numbers []int) string {
	return strings.ReplaceAll(strings.Trim(fmt.Sprint(numbers), "[]"), " ", ",")
}

// TestRunnerLayer runs what is measured through a Runner, verified.
func TestRunnerLayer(t *testing.T) {
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "lat,bw,rate,put_lat", "--size", "0,1,8,100,2000,70000",
		"--layer", "runner", "--verify", "--iterations", "130", "--rounds", "2", "--warmup", "3",
		"--window", "16")
	if len(d.Runs) != 3*6 || len(d.Skipped) == 0 {
		t.Errorf("%d runs, %d skipped", len(d.Runs), len(d.Skipped))
	}
	for i := range d.Runs {
		checkRun(t, &d.Runs[i])
	}
}

// checkRun checks a verified run of 130 iterations in two rounds.
func checkRun(t *testing.T, r *measure.RunRecord) {
	t.Helper()
	name := fmt.Sprintf("%s %s %d", r.Test, r.Layer, r.SizeBytes)
	// On a machine that is busy with other things the bare fabric may lose datagrams, and it sends a
	// ping again that has no reply after 100 ms.
	missing := r.Layer != plan.LayerRaw && r.MissingMessages != 0
	again := r.Layer == plan.LayerRaw && plan.IsLatency(r.Test)
	twice := !again && r.DuplicatedMessages != 0
	if r.CorruptBytes != 0 || missing || twice {
		t.Errorf("%s: %d corrupt, %d missing, %d twice", name, r.CorruptBytes, r.MissingMessages,
			r.DuplicatedMessages)
	}
	// The warm-up is verified as well.
	if want := int64(130+2*3) * int64(r.SizeBytes); r.LostDatagrams == 0 && r.VerifiedBytes < want {
		t.Errorf("%s: %d bytes verified, want %d", name, r.VerifiedBytes, want)
	}
	exact := !plan.ServerSends(r.Test) && r.LostDatagrams == 0 &&
		(r.Layer != plan.LayerRaw || r.SizeBytes <= 1472)
	if exact && r.Iterations != 130 {
		t.Errorf("%s: %d iterations, want 130", name, r.Iterations)
	}
	if plan.ServerSends(r.Test) && r.Layer == plan.LayerBTL && r.Iterations < 130 {
		t.Errorf("%s: %d iterations, want at least 130", name, r.Iterations)
	}
	if plan.IsLatency(r.Test) != (r.Latency != nil) || r.Rate <= 0 ||
		(r.SizeBytes > 0) != (r.Bandwidth > 0) {
		t.Errorf("%s: latency %v, %v messages/s, %v MB/s", name, r.Latency, r.Rate, r.Bandwidth)
	}
	if l := r.Latency; l != nil && (l.Min <= 0 || l.Min > l.P50 || l.P50 > l.P99 || l.P99 > l.Max) {
		t.Errorf("%s: %+v", name, l)
	}
	if len(r.Rounds) != 2 {
		t.Errorf("%s: %d rounds", name, len(r.Rounds))
	}
}

// TestLatLoad measures at three loads. The stream flows and is verified. TestLoadPace in layers
// checks with a given clock that a limited stream keeps to its rate.
func TestLatLoad(t *testing.T) {
	notRaced(t)
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "lat_load", "--size", "1,8", "--load", "1%,max,1%",
		"--load-size", "20000", "--window", "3,200", "--verify", "--duration", "300ms", "--rounds", "1",
		"--warmup", "0")
	if len(d.Runs) != 2*2*3 {
		t.Fatalf("%d runs", len(d.Runs))
	}
	for i := range d.Runs {
		r := &d.Runs[i]
		if load := []string{"idle", "1%", "max"}[i%3]; r.Load != load {
			t.Errorf("run %d: load %q, want %q", i, r.Load, load)
		}
		idle := r.Load == "idle"
		if (r.LoadBandwidth == 0) != idle || (r.RatioToIdle == nil) != idle || r.RatioToRaw != nil {
			t.Errorf("%s %d: %v MB/s, ratio %v", r.Load, r.SizeBytes, r.LoadBandwidth, r.RatioToIdle)
		}
		pings := r.Iterations * int64(r.SizeBytes)
		if r.CorruptBytes+r.MissingMessages+r.DuplicatedMessages != 0 ||
			!idle && r.VerifiedBytes < 20000+pings {
			t.Errorf("%s %d: %+v", r.Load, r.SizeBytes, r)
		}
	}
}

// TestRateWindows measures the rate with several windows, each once.
func TestRateWindows(t *testing.T) {
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "rate", "--layer", "both", "--window", "1,8,8,64",
		"--iterations", "128", "--rounds", "2", "--warmup", "0")
	var windows []int
	for i := range d.Runs {
		r := &d.Runs[i]
		windows = append(windows, r.Window)
		if r.SizeBytes != 8 || r.Rate <= 0 || r.NsPerMessage < 0.99e9/r.Rate ||
			r.NsPerMessage > 1.01e9/r.Rate || (r.RatioToRaw != nil) != (r.Layer == plan.LayerBTL) {
			t.Errorf("%+v", r)
		}
	}
	if !slices.Equal(windows, []int{1, 1, 8, 8, 64, 64}) {
		t.Errorf("windows %v", windows)
	}
}

// TestImpaired runs the transport over faults.
func TestImpaired(t *testing.T) {
	notRaced(t)
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "all", "--size", "1,8,5000", "--verify", "--iterations", "120",
		"--rounds", "1", "--window", "64", "--load-size", "20000",
		"--impair", "loss=1%,dup=2%,reorder=5%,seed=7")
	var retransmits uint64
	for i := range d.Runs {
		r := &d.Runs[i]
		retransmits += r.Retransmits
		if r.CorruptBytes != 0 || r.MissingMessages != 0 || r.DuplicatedMessages != 0 ||
			r.VerifiedBytes < 120*int64(r.SizeBytes) {
			t.Errorf("%s %d: %+v", r.Test, r.SizeBytes, r)
		}
	}
	// lat_load: idle and loaded; the numbers of atomic operations have one size.
	if len(d.Runs) != 3*(len(plan.AllTests)+1)-2*3 || retransmits == 0 {
		t.Errorf("%d runs, %d retransmissions", len(d.Runs), retransmits)
	}
}

// TestRoundsAreApart has messages of one round unacknowledged when the next one begins.
func TestRoundsAreApart(t *testing.T) {
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "put_lat,bibw", "--size", "5000", "--verify", "--iterations",
		"50", "--rounds", "2", "--warmup", "0", "--window", "8", "--set", "ack_delay=20ms")
	for i := range d.Runs {
		r := &d.Runs[i]
		if r.CorruptBytes+r.MissingMessages+r.DuplicatedMessages != 0 {
			t.Errorf("%s: %+v", r.Test, r)
		}
	}
	if len(d.Runs) != 2 {
		t.Errorf("%d runs", len(d.Runs))
	}
}

// TestLateNotes has notes lost that nobody waits for: what a window or a round has seen, told once
// more. They come again in the next round, which must not take them for its own.
func TestLateNotes(t *testing.T) {
	notRaced(t)
	addr, _ := startServe(t)
	d := measureJSON(t, addr, "--test", "rate", "--size", "5000", "--verify", "--iterations", "320",
		"--rounds", "20", "--warmup", "0", "--window", "8", "--impair", "loss=10%,reorder=5%,seed=2")
	if r := &d.Runs[0]; r.Iterations != 320 {
		t.Errorf("%d iterations", r.Iterations)
	}
}

// TestRawLoss runs the bare fabric over faults: it ends, and says what was lost, also where nobody
// verifies.
func TestRawLoss(t *testing.T) {
	notRaced(t)
	addr, _ := startServe(t)
	for _, verify := range []string{"--verify", "--verify=false"} {
		d := measureJSON(t, addr, "--layer", "raw", "--test", "lat,bw,bibw,rate", "--size", "100",
			"--window", "64", verify, "--iterations", "2000", "--rounds", "1", "--warmup", "0",
			"--impair", "loss=0.5%,seed=3")
		for i := range d.Runs {
			if r := &d.Runs[i]; r.LostDatagrams == 0 || r.CorruptBytes != 0 {
				t.Errorf("%s %s: %d lost, %d bytes corrupt", r.Test, verify, r.LostDatagrams,
					r.CorruptBytes)
			}
		}
		if len(d.Runs) != 4 {
			t.Errorf("%s: %d runs", verify, len(d.Runs))
		}
	}
}

// TestCorruptionIsFound has the faults alter bytes, which the bare fabric delivers.
func TestCorruptionIsFound(t *testing.T) {
	addr, _ := startServe(t)
	status, stdout, stderr := runCLI("run", addr, "--provider", "mem/local", "--layer", "raw",
		"--test", "bw", "--size", "1000", "--verify", "--iterations", "2000",
		"--impair", "corrupt=2%,seed=3", "--format", "csv")
	if status != exitFailure || !strings.Contains(stderr, "verification failed in bw 1000 (raw)") {
		t.Errorf("status %d, %q", status, stderr)
	}
	checkOneLine(t, stderr)
	if strings.Count(stdout, "\n") != 2 {
		t.Errorf("the report of the failed run is\n%s", stdout)
	}
}

// TestServeNext has one client after the other, good and bad.
func TestServeNext(t *testing.T) {
	addr, stderr := startServe(t)
	quick := []string{"--test", "lat", "--size", "8", "--iterations", "10", "--warmup", "0"}
	measureJSON(t, addr, quick...)
	conn, err := net.Dial("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Write([]byte("GET / HTTP/1.1\r\n\r\n")); err != nil {
		t.Fatal(err)
	}
	answer := make([]byte, 4096)
	n, err := conn.Read(answer)
	if err != nil || !strings.Contains(string(answer[:n]), `"error"`) {
		t.Errorf("junk was answered by %q, %v", answer[:n], err)
	}
	conn.Close()
	status, _, clientErr := runCLI("run", addr, "--provider", "mem/local", "--size", "8",
		"--set", "nonsense=1")
	if status != exitFailure || !strings.Contains(clientErr, `unknown tunable "nonsense"`) {
		t.Errorf("status %d, %q", status, clientErr)
	}
	measureJSON(t, addr, quick...)
	if !strings.Contains(stderr.String(), "control protocol violated") {
		t.Errorf("the junk is not reported:\n%s", stderr)
	}
}
