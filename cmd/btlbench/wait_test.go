//go:build linux

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"
)

// waitModes are all of --wait.
var waitModes = []string{"busy", "adaptive", "event"}

// pairRun is what is read of a report.
type pairRun struct {
	Iterations int64                            `json:"iterations"`
	CPUPercent struct{ Client, Server float64 } `json:"cpu_percent"`
	Waits      struct {
		Client, Server struct{ Crowded, Sleeps uint64 }
	} `json:"waits"`
}

// pairJSON runs a pair of processes, each this test binary as the program, and returns the one row
// that it reports, and the CPU time of both: that of the server is in it, which the client waits
// for.
func pairJSON(t *testing.T, args ...string) (run pairRun, cpu time.Duration) {
	t.Helper()
	stdout, state := runProcess(t, append([]string{
		"pair", "--test", "lat", "--size", "8", "--rounds", "1",
		"--warmup", "0", "--format", "json",
	}, args...)...)
	var report struct {
		Config struct{ Wait string } `json:"config"`
		Runs   []pairRun             `json:"runs"`
	}
	if err := json.Unmarshal(stdout, &report); err != nil {
		t.Fatalf("%v in\n%s", err, stdout)
	}
	mode := args[slices.Index(args, "--wait")+1]
	if len(report.Runs) != 1 || report.Config.Wait != mode {
		t.Fatalf("pair %v: %d rows, wait %q", args, len(report.Runs), report.Config.Wait)
	}
	return report.Runs[0], state.UserTime() + state.SystemTime()
}

// runProcess runs the program as a process of its own, which must succeed, and returns what it
// wrote to standard output.
func runProcess(t *testing.T, args ...string) ([]byte, *os.ProcessState) {
	t.Helper()
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(self, args...)
	cmd.Env = append(os.Environ(), envRunMain+"=1")
	var stderr strings.Builder
	cmd.Stderr = &stderr
	stdout, err := cmd.Output()
	if err != nil {
		t.Fatalf("%v: %v\n%s", args, err, stderr.String())
	}
	return stdout, cmd.ProcessState
}

// TestWaitSleeps has seconds of silence between two messages. A side that sleeps spends far less
// CPU time in them than one that polls, and says so. Both are measured beside each other.
func TestWaitSleeps(t *testing.T) {
	notRaced(t)
	const gaps = 2
	type used struct {
		cpu            time.Duration
		client, server float64 // percent
	}
	var mu sync.Mutex
	all := map[string]map[string]used{"shm": {}, "udp": {}}
	t.Run("modes", func(t *testing.T) {
		for provider := range all {
			for _, mode := range waitModes {
				t.Run(provider+"/"+mode, func(t *testing.T) {
					t.Parallel() // it sleeps
					run, cpu := pairJSON(t, "--provider", provider, "--wait", mode, "--gap", "1s",
						"--iterations", strconv.Itoa(gaps))
					if run.Iterations != gaps {
						t.Errorf("%d round trips, want %d", run.Iterations, gaps)
					}
					t.Logf("%v of CPU time; shown: %+v %%", cpu, run.CPUPercent)
					mu.Lock()
					defer mu.Unlock()
					all[provider][mode] = used{cpu, run.CPUPercent.Client, run.CPUPercent.Server}
				})
			}
		}
	})
	for provider, by := range all {
		polls := by["busy"]
		for mode, u := range by {
			// Both processes' start and end are in cpu, some tens of milliseconds.
			if mode != "busy" &&
				(2*u.cpu > polls.cpu || 2*u.client > polls.client || 2*u.server > polls.server) {
				t.Errorf("%s: in %d s of silence %s spends %+v, polling %+v", provider, gaps, mode, u, polls)
			}
		}
	}
}

// TestWaitStream holds that the sender of a stream that has nothing to do sleeps, where it waits by
// sleeping.
func TestWaitStream(t *testing.T) {
	for _, mode := range []string{"busy", "event"} {
		// 300 messages, a millisecond apart
		stdout, _ := runProcess(t, "pair", "--provider", "udp", "--wait", mode, "--test", "bw", "--size",
			"1000", "--rate", "8M", "--duration", "300ms", "--rounds", "1", "--format", "json")
		var report struct{ Runs []pairRun }
		if err := json.Unmarshal(stdout, &report); err != nil || len(report.Runs) != 1 {
			t.Fatalf("%v in\n%s", err, stdout)
		}
		slept := report.Runs[0].Waits.Client.Sleeps
		if mode == "busy" && slept > 0 || mode == "event" && slept < 50 {
			t.Errorf("%s: the sender has slept %d times", mode, slept)
		}
	}
}

// TestWaitOneCPU has both ends on one CPU: each message arrives whatever the way to wait, and a
// side that waits by polling finds out that it shares the processor, and says so.
func TestWaitOneCPU(t *testing.T) {
	notRaced(t)
	var allowed unix.CPUSet
	if err := unix.SchedGetaffinity(0, &allowed); err != nil {
		t.Fatal(err)
	}
	cpu := 0
	for !allowed.IsSet(cpu) {
		cpu++
	}
	both := fmt.Sprintf("%d,%d", cpu, cpu)
	for _, provider := range []string{"shm", "udp"} {
		for _, mode := range waitModes {
			t.Run(provider+"/"+mode, func(t *testing.T) {
				run, _ := pairJSON(t, "--provider", provider, "--wait", mode, "--cpus", both,
					"--iterations", "2000")
				if run.Iterations != 2000 {
					t.Errorf("%d round trips, want 2000", run.Iterations)
				}
				told := run.Waits.Client.Crowded+run.Waits.Server.Crowded > 0
				if polls := mode != "event"; told != polls {
					t.Errorf("said that the processor is shared: %v, want %v", told, polls)
				}
			})
		}
	}
}
