//go:build linux

package launch

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"gobtl/cmd/mpibench/bench"
	"gobtl/internal/testenv"
)

// The programs under test, built once.
var btlrun, mpibench string

// reap takes note of the end of what has lost its parents, of slurmd's daemons: in a container
// there may be nobody else who does.
func reap() {
	for {
		pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil)
		if err != nil || pid <= 0 {
			return
		}
	}
}

func buildAndRun(m *testing.M) int {
	testenv.HearSignals()
	if err := unix.Prctl(unix.PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	dir, err := os.MkdirTemp("", "btlrun")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	btlrun, mpibench = filepath.Join(dir, "btlrun"), filepath.Join(dir, "mpibench")
	out, err := exec.Command("go", "build", "-o", dir, "gobtl/cmd/btlrun",
		"gobtl/cmd/mpibench").CombinedOutput()
	if err != nil {
		fmt.Fprintf(os.Stderr, "building: %v\n%s", err, out)
		return 1
	}
	return m.Run()
}

// limit bounds a job: it is there for hangs, nothing takes nearly as long.
const limit = 90 * time.Second

// result is how a command has ended.
type result struct {
	status         int // minus the signal's number if one has ended it
	stdout, stderr string
}

// command is one that the test's end, or limit, ends with all that it has started.
func command(t *testing.T, program string, args ...string) *exec.Cmd {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	t.Cleanup(cancel)
	cmd := exec.CommandContext(ctx, program, args...)
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	cmd.Cancel = func() error { return syscall.Kill(-cmd.Process.Pid, syscall.SIGKILL) }
	cmd.WaitDelay = 5 * time.Second
	cmd.Env = slices.Clone(os.Environ())
	return cmd
}

// run runs a command to its end.
func run(t *testing.T, cmd *exec.Cmd) result {
	t.Helper()
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	err := cmd.Run()
	r := result{stdout: stdout.String(), stderr: stderr.String()}
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s%s", cmd.Args, err, r.stdout, r.stderr)
	}
	state := cmd.ProcessState.Sys().(syscall.WaitStatus)
	if r.status = state.ExitStatus(); state.Signaled() {
		r.status = -int(state.Signal())
	}
	return r
}

// self is this test's binary.
func self(t *testing.T) string {
	t.Helper()
	path, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return path
}

// greetings runs a job whose ranks greet each other, and wants a line of each: node says where it
// is.
func greetings(t *testing.T, cmd *exec.Cmd, size int, launcher string, node func(rank int) int) {
	t.Helper()
	cmd.Env = append(cmd.Env, roleVariable+"=greet")
	r := run(t, cmd)
	if r.status != 0 {
		t.Fatalf("%v: status %d\n%s%s", cmd.Args, r.status, r.stdout, r.stderr)
	}
	got := regexp.MustCompile(`greeted: .*`).FindAllString(r.stdout, -1)
	var want []string
	locals := map[int]int{}
	for rank := range size {
		locals[node(rank)]++
	}
	seen := map[int]int{}
	for rank := range size {
		n := node(rank)
		want = append(want, fmt.Sprintf("greeted: rank %d of %d, node %d of %d, local %d of %d, %s", rank,
			size, n, len(locals), seen[n], locals[n], launcher))
		seen[n]++
	}
	slices.Sort(got)
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("%v:\n%s\nwant\n%s\nin\n%s%s", cmd.Args, strings.Join(got, "\n"),
			strings.Join(want, "\n"), r.stdout, r.stderr)
	}
}

func oneNode(int) int { return 0 }

// measures runs mpibench with all of its tests, by the launcher's arguments, and wants figures of
// each, with all data right, over the network that is told in words.
func measures(t *testing.T, network string, start func(args ...string) *exec.Cmd) {
	t.Helper()
	r := run(t, start("--test", "all", "--verify", "--size", "8,1K,20K", "--duration", "1ms",
		"--format", "json", "-v"))
	if r.status != 0 {
		t.Fatalf("mpibench: status %d\n%s%s", r.status, r.stdout, r.stderr)
	}
	if !strings.Contains(r.stderr, "network: "+network) {
		t.Errorf("mpibench says %q, want the network %s", r.stderr, network)
	}
	got := map[string]int{}
	for line := range strings.Lines(r.stdout) {
		var figure bench.Result
		err := json.Unmarshal([]byte(line), &figure)
		if err != nil || figure.Schema != bench.Schema || figure.Median <= 0 {
			t.Errorf("%q: %v", line, err)
		}
		got[figure.Test]++
	}
	for _, test := range bench.Tests() {
		want := 3
		if test == "barrier" || test == "fop_latency" || test == "cas_latency" { // have one size
			want = 1
		}
		if got[test] != want {
			t.Errorf("%s has %d figures, want %d in\n%s", test, got[test], want, r.stdout)
		}
	}
}

// refuses starts mpibench with mistakes, which one rank sees as well as another: all end with 2,
// and they are told once.
func refuses(t *testing.T, start func(args ...string) *exec.Cmd) {
	t.Helper()
	for args, want := range map[string]string{
		"--window 0": "mpibench: measure: --window must be", // without a look at the job
		"--ranks 99": "mpibench: --ranks: 99 of ",
	} {
		r := run(t, start(strings.Fields(args)...))
		if r.status != 2 || strings.Count(r.stderr, "mpibench: ") != 1 ||
			!strings.Contains(r.stderr, want) {
			t.Errorf("%s: status %d, want 2 and one line of mpibench\n%s%s", args, r.status, r.stdout,
				r.stderr)
		}
	}
}

// TestAlone runs a rank that nobody has launched.
func TestAlone(t *testing.T) {
	t.Parallel()
	greetings(t, command(t, self(t)), 1, "none", oneNode)
}

// TestHydra runs ranks under MPICH's launcher, by an inherited socket and by a port.
func TestHydra(t *testing.T) {
	t.Parallel()
	hydra := testenv.Need(t, "mpiexec.hydra", "mpich")
	greetings(t, command(t, hydra, "-n", "4", self(t)), 4, "PMI-1", oneNode)
	greetings(t, command(t, hydra, "-pmi-port", "-n", "3", self(t)), 3, "PMI-1", oneNode)
	job := func(args ...string) *exec.Cmd {
		return command(t, hydra, append([]string{"-n", "4", mpibench}, args...)...)
	}
	measures(t, "shm (all ranks are on this host", job)
	refuses(t, job)
	abort := command(t, hydra, "-n", "3", self(t))
	abort.Env = append(abort.Env, roleVariable+"=abort")
	if r := run(t, abort); r.status != 7 {
		t.Errorf("status of a job that was aborted with 7: %d\n%s%s", r.status, r.stdout, r.stderr)
	}
}

// TestOpenMPI runs ranks under mpirun, which has no PMI-1: they meet at rank 0, by a socket of the
// file system and by TCP.
func TestOpenMPI(t *testing.T) {
	t.Parallel()
	mpirun := testenv.Need(t, "mpirun.openmpi", "openmpi-bin")
	launch := func(args ...string) *exec.Cmd {
		cmd := command(t, mpirun, append([]string{"--oversubscribe", "--bind-to", "none"}, args...)...)
		cmd.Env = append(cmd.Env, "OMPI_ALLOW_RUN_AS_ROOT=1", "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1",
			"TMPDIR="+t.TempDir())
		return cmd
	}
	start := func(args ...string) *exec.Cmd { return launch(append(args, self(t))...) }
	greetings(t, start("-n", "4"), 4, "Open MPI", oneNode)
	job := func(args ...string) *exec.Cmd {
		return launch(append([]string{"-n", "4", mpibench}, args...)...)
	}
	measures(t, "shm (all ranks are on this host", job)
	refuses(t, job)
	greetings(t, start("-n", "3", "-x", "BTL_RENDEZVOUS=127.0.0.1:"+freePort(t)), 3, "Open MPI",
		oneNode)
	for role, status := range map[string]int{"abort": 7, "fail": 5} {
		cmd := start("-n", "3")
		cmd.Env = append(cmd.Env, roleVariable+"="+role)
		if r := run(t, cmd); r.status == 0 {
			t.Errorf("status of a job with a rank that ended with %d: 0\n%s%s", status, r.stdout, r.stderr)
		}
	}
}
