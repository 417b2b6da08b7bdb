package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"time"
)

// result is what became of a fault.
type result struct {
	mutation

	by    string // "swarm" or the test; empty: nothing noticed
	seeds uint64 // that the swarm took, up to the one that failed
	said  string // first line of what it said
	took  time.Duration
}

// worker proves faults in its own copy of the sources.
type worker struct {
	o   *options
	dir string
}

func (w *worker) work(root string, work <-chan int, all []mutation, results []result) error {
	err := copyTree(root, w.dir)
	for i := range work {
		if err != nil {
			continue // let the sender finish
		}
		begin := time.Now()
		results[i].mutation = all[i]
		if err = w.try(&results[i]); err == nil {
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

// try puts one fault into the copy, builds it, and looks who notices.
func (w *worker) try(r *result) (err error) {
	undo, err := r.apply(w.dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, undo()) }()
	if !w.o.noSwarm {
		binary := filepath.Join(w.dir, "swarm.exe")
		out, err := w.run(10*time.Minute, "go", "build", "-o", binary, "./test/sim/cmd/swarm")
		if err != nil {
			r.said = "does not build: " + gist(out, err)
			return nil
		}
		out, err = w.run(w.o.limit, binary, "--seeds", strconv.Itoa(w.o.seeds),
			"--first", strconv.FormatUint(w.o.first, 10), "--workers", "1")
		if err != nil {
			r.by, r.said = bySwarm, gist(out, err)
			r.seeds = seedOf(out, w.o.first)
			return nil
		}
	}
	args := append([]string{"test", "-count=1"}, strings.Fields(r.test)...)
	out, err := w.run(w.o.limit, "go", args...)
	if err == nil {
		return nil
	}
	if strings.Contains(out, "[build failed]") || strings.Contains(out, "no tests to run") {
		r.said = "does not run: " + gist(out, err)
		return nil
	}
	r.by, r.said = "go test "+r.test, gist(out, err)
	return nil
}

// errLimit: a faulty program that never ends is a program that was noticed.
var errLimit = errors.New("did not end in time")

func (w *worker) run(limit time.Duration, name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = w.dir
	c.WaitDelay = time.Second
	c.Env = append(os.Environ(), "GOFLAGS=", "GOBTL_TEST_SEEDS=")
	out, err := c.CombinedOutput()
	if ctx.Err() != nil {
		err = errLimit
	}
	return string(out), err
}

var seedPattern = regexp.MustCompile(`(?i)\bseed[ =:]+(\d+)`)

// seedOf returns how many seeds it took to the one that a failed swarm names.
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

// noise begins the lines of a go test, a swarm or a panic that do not say what is wrong.
var noise = regexp.MustCompile(
	`^\s*(---|===|FAIL|ok|PASS|exit status|goroutine|$|make replay|\?|panic: test timed)|GOBTL_TEST_SEED|` +
		`\[rapid\] (panic|failed) after`)

var place = regexp.MustCompile(`^\s*\w+_test\.go:\d+: `)

const gistBytesMax = 110

// gist finds the line that says what is wrong.
func gist(out string, err error) string {
	if errors.Is(err, errLimit) {
		return err.Error()
	}
	for line := range strings.Lines(out) {
		line = strings.TrimRight(line, "\n")
		if noise.MatchString(line) {
			continue
		}
		line = strings.TrimSpace(place.ReplaceAllString(line, ""))
		if len(line) > gistBytesMax {
			line = line[:gistBytesMax] + "..."
		}
		return line
	}
	return err.Error()
}
