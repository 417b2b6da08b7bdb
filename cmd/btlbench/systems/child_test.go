package systems

import (
	"context"
	"errors"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobtl/internal/testenv"
)

// testHost starts processes without pinning them.
func testHost(t *testing.T, limit time.Duration) *Host {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("sessions are Linux's")
	}
	return &Host{each: time.Millisecond, limit: limit, dir: t.TempDir()}
}

// A figure of the house is one part, or the median of as many as are wanted.
func TestParts(t *testing.T) {
	dir := t.TempDir()
	self, told := filepath.Join(dir, "pair"), filepath.Join(dir, "args")
	script := "#!/bin/sh\necho \"$@\" >" + told + "\necho {}\n"
	if err := os.WriteFile(self, []byte(script), 0o700); err != nil { //nolint:gosec // It is run.
		t.Fatal(err)
	}
	p := newPair(Program{Self: self}, "udp", "btl", 0)
	for parts, want := range map[int]string{0: "--rounds 1 ", 7: "--rounds 7 "} {
		h := NewHost(nil, time.Millisecond, 10*time.Second, dir)
		h.InParts(parts)
		_, _ = p.Measure(t.Context(), h, []Point{{Latency, 8, 1}}) // It tells nothing.
		args, err := os.ReadFile(told)
		if err != nil || !strings.Contains(string(args), want) {
			t.Errorf("%q, %v: want %q", args, err, want)
		}
	}
}

func shell(script string) command { return command{name: "sh", args: []string{"-c", script}} }

func TestRunOutput(t *testing.T) {
	h := testHost(t, time.Minute)
	out, err := h.run(t.Context(), anyCPU, shell("echo figures; echo complaint >&2"))
	if err != nil || string(out) != "figures\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = h.run(t.Context(), anyCPU, shell("echo figures; echo complaint >&2; exit 3"))
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || !strings.Contains(err.Error(), "complaint") {
		t.Errorf("%v", err)
	}
	if _, err := h.run(t.Context(), anyCPU, command{name: "no-such-tool"}); err == nil {
		t.Error("a tool that is not there ran")
	}
}

// waitFile waits until a process has written the file, and returns the number in it.
func waitFile(t *testing.T, name string) int {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); {
		if data, err := os.ReadFile(name); err == nil && strings.HasSuffix(string(data), "\n") {
			pid, err := strconv.Atoi(strings.TrimSpace(string(data)))
			if err != nil {
				t.Fatal(err)
			}
			return pid
		}
		time.Sleep(time.Millisecond)
	}
	t.Fatal(name + " was not written")
	return 0
}

// alive says whether a process is there and no zombie.
func alive(pid int) bool {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	return err == nil && !strings.Contains(string(stat), ") Z ")
}

// ends waits until a process ends, which takes a moment after a signal on a busy machine. It gives
// up after a minute.
func ends(pid int) bool {
	for deadline := time.Now().Add(time.Minute); alive(pid); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			return false
		}
	}
	return true
}

// TestNothingLeft holds that a process that takes too long, or that the user gives up, ends with
// all that it started: also those in a process group of their own, and those deaf to SIGTERM.
func TestNothingLeft(t *testing.T) {
	for _, c := range []struct{ name, script string }{
		{"child", "sleep 1000 & echo $! > $FILE; wait"},
		{"own group", "bash -c 'set -m; sleep 1000 & echo $! > $FILE; wait'"},
		{"deaf", "trap '' TERM; sleep 1000 & echo $! > $FILE; while :; do wait; done"},
		{"orphan", "sleep 1000 & echo $! > $FILE"},
	} {
		t.Run(c.name, func(t *testing.T) {
			h := testHost(t, time.Minute)
			file := filepath.Join(t.TempDir(), "pid")
			ctx, cancel := context.WithCancelCause(t.Context())
			stop := errors.New("stop")
			pid := make(chan int, 1)
			go func() {
				pid <- waitFile(t, file)
				if c.name != "orphan" {
					cancel(stop)
				}
			}()
			script := shell(c.script)
			script.env = []string{"FILE=" + file}
			_, err := h.run(ctx, anyCPU, script)
			if c.name != "orphan" && !errors.Is(err, stop) {
				t.Errorf("error %v", err)
			}
			cancel(nil)
			if pid := <-pid; !ends(pid) {
				t.Errorf("process %d lives on", pid)
			}
		})
	}
}

func TestLimit(t *testing.T) {
	h := testHost(t, 100*time.Millisecond)
	_, err := h.run(t.Context(), anyCPU, shell("echo stuck >&2; sleep 1000"))
	if !errors.Is(err, errLimit) || !strings.Contains(err.Error(), "stuck") {
		t.Errorf("%v", err)
	}
}

// TestRunPair holds that the client starts when the server listens, and what is said of a server
// that does not.
func TestRunPair(t *testing.T) {
	h := testHost(t, time.Minute)
	port, err := freePort()
	if err != nil {
		t.Fatal(err)
	}
	_, err = h.runPair(t.Context(), shell("echo no fabric >&2; exit 1"), shell("true"), port)
	if err == nil || !strings.Contains(err.Error(), "no fabric") {
		t.Errorf("server that fails: %v", err)
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	port = l.Addr().(*net.TCPAddr).Port // somebody listens already: that is all that is looked at
	out, err := h.runPair(t.Context(), shell("sleep 1000"), shell("echo figures"), port)
	if err != nil || string(out) != "figures\n" {
		t.Errorf("%q, %v", out, err)
	}
	_, err = h.runPair(t.Context(), shell("sleep 1000"), shell("echo refused >&2; exit 1"), port)
	if err == nil || !strings.Contains(err.Error(), "refused") {
		t.Errorf("client that fails: %v", err)
	}
}

func TestPinned(t *testing.T) {
	h := testHost(t, time.Minute)
	out, err := h.run(t.Context(), 0, shell("grep Cpus_allowed_list /proc/self/status"))
	if err != nil || strings.Join(strings.Fields(string(out)), " ") != "Cpus_allowed_list: 0" {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := h.run(t.Context(), 1000, shell("true")); err == nil {
		t.Error("pinned to a CPU that is not there")
	}
}

func TestTail(t *testing.T) {
	var b tail
	b.limit = 8
	for range 3 {
		if n, err := b.Write([]byte("12345\n")); n != 6 || err != nil {
			t.Fatal(n, err)
		}
	}
	if got := string(b.bytes()); got != "5\n12345\n" {
		t.Errorf("%q", got)
	}
	if got := b.lastLines(); got != "5 / 12345" {
		t.Errorf("%q", got)
	}
}

// TestMPIProgram builds the program without a warning.
func TestMPIProgram(t *testing.T) {
	mpicc := testenv.Need(t, "mpicc", "libopenmpi-dev")
	out, err := exec.Command(mpicc, "-Wall", "-Wextra", "-Werror", "-O2", "-o",
		filepath.Join(t.TempDir(), "peer"), "mpi/peer.c").CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
}
