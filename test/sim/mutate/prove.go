package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/test/patch"
)

// result is the outcome of a fault.
type result struct {
	mutation

	by    string // "swarm" or the test; empty: nothing noticed
	seeds uint64 // that the swarm took, up to the one that failed
	said  string // first line of what it said
	took  time.Duration
}

// worker tests faults one after the other, with an overlay that replaces one file of the sources.
type worker struct {
	o     *options
	ctx   context.Context // is over when the user has had enough
	root  string          // of the sources
	dir   string          // of its own
	first bool            // looks whether there is a failure without any fault

	described string // file with the description of the changed sources
}

func (w *worker) work(work <-chan int, faults []fault, results []result) error {
	err := os.MkdirAll(w.dir, 0o755)
	if err == nil && w.first && !w.o.NoSwarm {
		err = w.baseline()
	}
	for i := range work {
		if err != nil {
			continue // let the sender finish
		}
		begin := time.Now()
		results[i].mutation = faults[i].mutation
		if err = w.try(&results[i], faults[i].Edit); err == nil {
			r := &results[i]
			r.took = time.Since(begin)
			fmt.Printf("%-26s %-8s %5d seeds %6.1fs  %s\n", r.name, short(r.by), r.seeds,
				r.took.Seconds(), r.said)
		}
	}
	return err
}

func short(by string) string {
	switch by {
	case "":
		return "SURVIVES"
	case bySwarm:
		return by
	}
	return "test"
}

const bySwarm = "swarm"

// fault is a mutation with its changes of the sources.
type fault struct {
	mutation
	*patch.Edit
}

// try builds the sources with one fault, and finds the test that detects the fault.
func (w *worker) try(r *result, e *patch.Edit) (err error) {
	if err := w.overlay(e); err != nil {
		return err
	}
	if !w.o.NoSwarm && !slices.Contains(notInSwarm, r.in) {
		if err := w.trySwarm(r); errors.Is(err, errBuild) || r.by != "" {
			return nil
		}
	}
	out, err := w.run(w.o.Limit, "go", testArgs(r.test, w.o.Limit/2)...)
	if strings.Contains(out, testTimedOut) {
		err = errLimit
	}
	switch {
	case err == nil:
	case errors.Is(err, errLimit): // of a slow machine, or of the fault: nobody can tell
		r.said = err.Error()
	case strings.Contains(out, "[build failed]") || strings.Contains(out, "no tests to run"):
		r.said = "does not run: " + gist(out, err)
	default:
		r.by, r.said = "go test "+r.test, gist(out, err)
	}
	return nil
}

// The method overlay describes the sources with a fault for the go command, or without any fault.
func (w *worker) overlay(edits ...*patch.Edit) (err error) {
	w.described, err = patch.Overlay(w.dir, edits...)
	return err
}

// trySwarm runs the swarm with a fault.
func (w *worker) trySwarm(r *result) error {
	binary := filepath.Join(w.dir, "swarm.exe")
	out, err := w.run(w.o.Limit, "go", "build", "-ldflags=-s -w", "-o", binary, "./test/sim/cmd/swarm")
	if err != nil {
		r.said = "the swarm does not build: " + gist(out, err)
		return errBuild
	}
	// If a fault makes the swarm hang, the named test decides.
	out, err = w.run(w.o.SwarmLimit, binary, "--seeds", strconv.Itoa(w.o.Seeds),
		"--first", strconv.FormatUint(w.o.First, 10), "--workers", "1")
	if err != nil && !errors.Is(err, errLimit) {
		r.by, r.said = bySwarm, gist(out, err)
		r.seeds = seedOf(out, w.o.First)
	}
	return nil
}

// baseline returns an error if the sources without a fault fail.
func (w *worker) baseline() error {
	r := result{mutation: mutation{name: "no fault"}}
	if err := w.overlay(); err != nil {
		return err
	}
	if err := w.trySwarm(&r); err != nil {
		return fmt.Errorf("without any fault: %w: %s", err, r.said)
	}
	if r.by != "" {
		return fmt.Errorf("the swarm fails without any fault: %s", r.said)
	}
	return nil
}

// notInSwarm lists packages that the swarm does not contain.
var notInSwarm = []string{"pml", "mpi", "mpi/coll"}

// rapidPackages lists packages whose tests would spend half a minute on reducing a failure.
var rapidPackages = []string{"./reliability", "./frag", "./hotel"}

// testTimedOut is a part of the output of a test that has reached its time limit.
const testTimedOut = "panic: test timed out"

// testArgs returns the arguments of the go command for a test of the table. The test ends itself at
// the time limit. If the go command were killed instead, its child process would continue the test.
func testArgs(test string, limit time.Duration) []string {
	words := strings.Fields(test)
	args := append([]string{"test", "-count=1", "-vet=off", "-timeout=" + limit.String()}, words...)
	if slices.Contains(rapidPackages, words[0]) {
		args = append(args, "-rapid.nofailfile", "-rapid.shrinktime=1ms", "-rapid.checks=1000")
	}
	return args
}

// errBuild means that the sources do not compile, so the fault was not tested.
var errBuild = errors.New("does not build")

// errLimit means that a program took too long.
var errLimit = errors.New("did not end in time")

func (w *worker) run(limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(w.ctx, limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = w.root
	c.WaitDelay = time.Second
	c.Env = append(os.Environ(), "GOBTL_TEST_SEEDS=",
		"GOFLAGS=-buildvcs=false -overlay="+w.described)
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = errLimit
	}
	return string(out), err
}

var seedPattern = regexp.MustCompile(`(?i)\bseed[ =:]+(\d+)`)

// seedOf returns how many seeds a failed swarm has run.
func seedOf(out string, first uint64) uint64 {
	m := seedPattern.FindStringSubmatch(out)
	if m == nil {
		return 0
	}
	n, err := strconv.ParseUint(m[1], 10, 64)
	if err != nil || n < first {
		return 0
	}
	return n - first + 1
}

// noise lists beginnings of output lines that do not explain a failure.
var noise = regexp.MustCompile(
	`^\s*(---|===|FAIL|ok|PASS|exit status|goroutine|$|make replay|\?|panic: test timed)|` +
		`GOBTL_TEST_SEED|go: downloading |\[rapid\]|To reproduce|Failed test output`)

var testPlace = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)

// failedSeed matches the line of a swarm that reports a failure, without seed and time.
var failedSeed = regexp.MustCompile(`(?m)^FAIL seed \d+: (?:at [^:]*s: )?(.*)$`)

const gistRunesMax = 120

// gist finds the line of the output that describes the failure.
func gist(out string, err error) string {
	if errors.Is(err, errLimit) {
		return err.Error()
	}
	if m := failedSeed.FindStringSubmatch(out); m != nil {
		return cut(m[1])
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if !noise.MatchString(line) {
			return cut(testPlace.ReplaceAllString(line, ""))
		}
	}
	return err.Error()
}

func cut(line string) string {
	line = strings.TrimSpace(line)
	if r := []rune(line); len(r) > gistRunesMax {
		line = strings.TrimSpace(string(r[:gistRunesMax])) + "..."
	}
	return line
}
