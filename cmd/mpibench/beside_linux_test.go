package main

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"gobtl/cmd/mpibench/bench"
)

// asProgram makes the test's own program behave as mpibench.
const asProgram = "GOBTL_TEST_MPIBENCH"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		os.Exit(run(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Exit(m.Run())
}

// proc is what /proc tells of a process or thread.
type proc struct{ parent, session, nice int }

func readProc(file string) (p proc, ok bool) {
	text, err := os.ReadFile(file)
	_, after, found := strings.Cut(string(text), ") ")
	f := strings.Fields(after)
	if err != nil || !found || len(f) < 17 || f[0] == "Z" {
		return p, false
	}
	number := func(s string) int { n, _ := strconv.Atoi(s); return n }
	return proc{parent: number(f[1]), session: number(f[3]), nice: number(f[16])}, true
}

// neighbours lists the neighbours that a process has started.
func neighbours(parent int) (pids []int) {
	files, _ := filepath.Glob("/proc/[0-9]*/cmdline")
	for _, file := range files {
		text, _ := os.ReadFile(file) // the process may be gone
		p, ok := readProc(filepath.Join(filepath.Dir(file), "stat"))
		if ok && p.parent == parent && bytes.Contains(text, []byte("\x00neighbour\x00")) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			pids = append(pids, pid)
		}
	}
	return pids
}

func eventually(t *testing.T, what string, ready func() bool) {
	t.Helper()
	for end := time.Now().Add(time.Minute); !ready(); time.Sleep(5 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatalf("never: %s", what)
		}
	}
}

// TestBeside: each kind of neighbour is in its session, has its priority, and ends with the
// command. The output and the status of the command are passed on.
func TestBeside(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for _, kind := range []string{"loops", "sessions", "nice", "wakes"} {
		t.Run(kind, func(t *testing.T) {
			cmd := exec.CommandContext(t.Context(), self, "beside", kind, "0,0", "sh", "-c",
				"cat; exit 3")
			cmd.Env = append(os.Environ(), asProgram+"=1")
			in, err := cmd.StdinPipe()
			var stdout, stderr bytes.Buffer
			cmd.Stdout, cmd.Stderr = &stdout, &stderr
			if err != nil || cmd.Start() != nil {
				t.Fatal(err)
			}
			own, _ := readProc("/proc/self/stat")
			var pids []int
			eventually(t, "two neighbours, each at its place", func() bool {
				pids = neighbours(cmd.Process.Pid)
				placed := 0
				for _, pid := range pids {
					p, _ := readProc(fmt.Sprintf("/proc/%d/stat", pid))
					session := (p.session == own.session) == (kind != "sessions")
					if session && nicest(pid) == (kind == "nice") {
						placed++
					}
				}
				return placed == 2
			})
			fmt.Fprint(in, "told")
			in.Close()
			err = cmd.Wait()
			if stdout.String() != "told" || err == nil || !strings.Contains(stderr.String(), "status 3") {
				t.Errorf("%q, %q, %v", &stdout, &stderr, err)
			}
			for _, pid := range pids {
				if p, ok := readProc(fmt.Sprintf("/proc/%d/stat", pid)); ok {
					t.Errorf("neighbour %d is left: %+v", pid, p)
				}
			}
		})
	}
}

// nicest says whether a thread of the process has the least priority.
func nicest(pid int) bool {
	files, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*/stat", pid))
	for _, file := range files {
		if p, ok := readProc(file); ok && p.nice == 19 {
			return true
		}
	}
	return false
}

// TestLayer measures a layer between two processes, and checks that each process has ended.
func TestLayer(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithTimeout(t.Context(), time.Minute)
	defer stop()
	cmd := exec.CommandContext(ctx, self, "layer", "conn", "--test", "latency,bw", "--size", "8,100",
		"--duration", "1ms", "--cpus", "0,0")
	cmd.Env = append(os.Environ(), asProgram+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr // Wait returns when no process has this open
	out, err := cmd.Output()
	if err != nil || stderr.Len() > 0 {
		t.Fatalf("%v: %s", err, &stderr)
	}
	var got []string
	for line := range bytes.Lines(out) {
		var r bench.Result
		if err := json.Unmarshal(line, &r); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		got = append(got, fmt.Sprint(r.Test, r.Size))
	}
	if want := "latency8 latency100 bw8 bw100"; strings.Join(got, " ") != want {
		t.Errorf("%v, want %s", got, want)
	}
}
