//go:build unix

package cli

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rogpeppe/go-internal/testscript"

	"gobtl/internal/testenv"
)

// binary is the program under test, built once.
var binary string

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	testenv.HearSignals()
	dir, err := os.MkdirTemp("", "btlbench")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	binary = filepath.Join(dir, "btlbench")
	out, err := exec.Command("go", "build", "-o", binary, "gobtl/cmd/btlbench").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building btlbench: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// needUDP makes sure that libfabric's udp provider is there.
func needUDP(t *testing.T) {
	t.Helper()
	out, err := exec.Command(binary, "info", "--provider", "ofi/udp").CombinedOutput()
	if err == nil && !strings.Contains(string(out), "not available") {
		return
	}
	testenv.Missing(t, "needs libfabric's udp provider: %v\n%s", err, out)
}

func TestScripts(t *testing.T) {
	needUDP(t)
	testscript.Run(t, testscript.Params{
		Dir: "testdata",
		Setup: func(env *testscript.Env) error {
			env.Setenv("PATH", filepath.Dir(binary)+string(os.PathListSeparator)+os.Getenv("PATH"))
			return nil
		},
		Cmds: map[string]func(ts *testscript.TestScript, neg bool, args []string){
			"status":  scriptStatus,
			"oneline": scriptOneLine,
		},
	})
}

// scriptStatus is "status N command args...": the command must exit with status N.
func scriptStatus(ts *testscript.TestScript, neg bool, args []string) {
	if neg || len(args) < 2 {
		ts.Fatalf("usage: status N command args...")
	}
	want := args[0]
	err := ts.Exec(args[1], args[2:]...)
	got := "0"
	var exit *exec.ExitError
	if errors.As(err, &exit) {
		got = fmt.Sprint(exit.ExitCode())
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("status %s, want %s", got, want)
	}
}

// scriptOneLine is "oneline": the last command wrote one line to standard error, of the program,
// and nothing to standard output.
func scriptOneLine(ts *testscript.TestScript, _ bool, _ []string) {
	if out := ts.ReadFile("stdout"); out != "" {
		ts.Fatalf("standard output:\n%s", out)
	}
	stderr := ts.ReadFile("stderr")
	if strings.Count(stderr, "\n") != 1 || !strings.HasPrefix(stderr, "btlbench: ") {
		ts.Fatalf("not one line of the program:\n%s", stderr)
	}
}

// process is a running btlbench.
type process struct {
	t      *testing.T
	cmd    *exec.Cmd
	stdout stream
	stderr stream
	exited chan struct{}
}

// stream is what a process has written so far.
type stream struct {
	lock sync.Mutex
	buf  bytes.Buffer
}

func (s *stream) Write(b []byte) (int, error) {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.Write(b)
}

func (s *stream) String() string {
	s.lock.Lock()
	defer s.lock.Unlock()
	return s.buf.String()
}

// start starts btlbench. It is killed when the test ends.
func start(t *testing.T, args ...string) *process {
	t.Helper()
	p := &process{t: t, cmd: exec.Command(binary, args...), exited: make(chan struct{})}
	p.cmd.Stdout, p.cmd.Stderr = &p.stdout, &p.stderr
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	go func() {
		_ = p.cmd.Wait() // The status is in ProcessState.
		close(p.exited)
	}()
	t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.exited
	})
	return p
}

// wait returns the exit status, and fails the test if the process takes longer than that. A
// signal's death is its negative number.
func (p *process) wait(limit time.Duration) int {
	p.t.Helper()
	select {
	case <-p.exited:
	case <-time.After(limit):
		p.t.Fatalf("btlbench %s still runs after %v\nstdout:\n%s\nstderr:\n%s",
			strings.Join(p.cmd.Args[1:], " "), limit, p.stdout.String(), p.stderr.String())
	}
	state := p.cmd.ProcessState.Sys().(syscall.WaitStatus)
	if state.Signaled() {
		return -int(state.Signal())
	}
	return state.ExitStatus()
}

func (p *process) signal(sig syscall.Signal) {
	p.t.Helper()
	if err := p.cmd.Process.Signal(sig); err != nil {
		p.t.Fatal(err)
	}
}

// oneLine checks that standard error is one line of the program, and no stack trace, and returns
// it.
func (p *process) oneLine() string {
	p.t.Helper()
	text := p.stderr.String()
	if strings.Count(text, "\n") != 1 || !strings.HasPrefix(text, "btlbench: ") ||
		strings.Contains(text, "goroutine ") {
		p.t.Errorf("not one line of the program:\n%s", text)
	}
	return text
}

// eventually waits for a condition.
func eventually(t *testing.T, what string, condition func() bool) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	for tick := time.NewTicker(5 * time.Millisecond); ; {
		if condition() {
			tick.Stop()
			return
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			t.Fatalf("never: %s", what)
		}
	}
}

// startServe starts a server and returns its address.
func startServe(t *testing.T, args ...string) (p *process, addr string) {
	t.Helper()
	p = start(t, append([]string{"serve", "--listen", "127.0.0.1:0"}, args...)...)
	eventually(t, "the server listens", func() bool {
		line, _, ok := strings.Cut(p.stdout.String(), "\n")
		addr = strings.TrimPrefix(line, "listening on ")
		return ok
	})
	return p, addr
}

// busy waits until a process is in the middle of a run: its hot loop has used more CPU time than
// all of the set-up does.
func busy(t *testing.T, pid int) {
	t.Helper()
	const ticks = 50 // of 10 ms
	eventually(t, "the run begins", func() bool {
		stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		_, after, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(after)
		if err != nil || len(fields) < 13 || fields[0] == "Z" {
			t.Fatalf("the process ended before the run began: %v, %q", err, stat)
		}
		user, uerr := strconv.Atoi(fields[11])
		system, serr := strconv.Atoi(fields[12])
		return uerr == nil && serr == nil && user+system >= ticks
	})
}

// report is what these tests read of the JSON form.
type report struct {
	Schema      string
	Interrupted bool
	Runs        []struct {
		Test       string
		Layer      string
		SizeBytes  int `json:"size_bytes"`
		Iterations int64
		Latency    *struct{ Min, P50, P90, P99, P999, Max, Mean float64 } `json:"latency_us"`
		Bandwidth  float64                                                `json:"bandwidth_mb_per_s"`
		Rate       float64                                                `json:"messages_per_s"`

		Retransmits, Duplicates uint64
		VerifiedBytes           int64 `json:"verified_bytes"`
		CorruptBytes            int64 `json:"corrupt_bytes"`
		MissingMessages         int64 `json:"missing_messages"`
		DuplicatedMessages      int64 `json:"duplicated_messages"`

		AtEnd      struct{ Client, Server state }             `json:"at_end"`
		CPUPercent struct{ Client, Server float64 }           `json:"cpu_percent"`
		Counters   struct{ Client, Server map[string]uint64 } `json:"counters"`
	}
}

// state is what a side of a run knew at its end.
type state struct {
	Path *struct {
		RoundTripUs   float64 `json:"round_trip_us"`
		LeastUs       float64 `json:"least_us"`
		WindowPackets int     `json:"window_packets"`
	}
	Fabric []struct{ Name, Value string }
}

// report reads standard output, which must be one JSON document and nothing else.
func (p *process) report() *report {
	p.t.Helper()
	decoder := json.NewDecoder(strings.NewReader(p.stdout.String()))
	r := new(report)
	if err := decoder.Decode(r); err != nil {
		p.t.Fatalf("%v in\n%s\nstderr:\n%s", err, p.stdout.String(), p.stderr.String())
	}
	if decoder.More() {
		p.t.Errorf("more than one document:\n%s", p.stdout.String())
	}
	if r.Schema != "gobtl-bench/1" {
		p.t.Errorf("schema %q", r.Schema)
	}
	return r
}
