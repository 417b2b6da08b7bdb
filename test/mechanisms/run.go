package main

import (
	"bufio"
	"context"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"

	"golang.org/x/sync/errgroup"

	"gobtl/test/patch"
)

// runner builds the programs of all trials, and runs them.
type runner struct {
	o    *measure
	ctx  context.Context // is over when the user has had enough
	root string          // of the sources
	dir  string          // of the programs, which the next call builds faster
}

// row is a mechanism with its measurements.
type row struct {
	mechanism

	lines  int
	result []outcome // of the trials
}

// outcome is the result of a trial.
type outcome struct {
	with, without []float64 // in each round
}

// measure runs all trials. First, all programs are built, so that no compiler runs beside a trial.
func (r *runner) measure(all []mechanism) ([]row, error) {
	src := patch.NewSources(r.root)
	rows := make([]row, len(all))
	if err := r.build(r.folder(nil), nil, all...); err != nil {
		return nil, err
	}
	for i := range all {
		m := &all[i]
		lines, err := linesOf(r.root, m.parts)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", m.name, err)
		}
		rows[i] = row{*m, lines, make([]outcome, len(m.trials))}
		edits, err := m.edits(src)
		if err != nil {
			return nil, err
		}
		if len(edits) == 0 {
			continue
		}
		if err := r.build(r.folder(m), edits, *m); err != nil {
			return nil, err
		}
		fmt.Println("built without:", m.name)
	}
	if err := r.together(rows); err != nil {
		return nil, err
	}
	for round := range r.o.Rounds {
		for i := range rows {
			if err := r.benchmarks(&rows[i], round); err != nil {
				return nil, err
			}
		}
	}
	return rows, nil
}

// folder is the folder of the programs without a mechanism, or of those with all mechanisms.
func (r *runner) folder(m *mechanism) string {
	if m == nil || len(m.off) == 0 {
		return filepath.Join(r.dir, "all")
	}
	return filepath.Join(r.dir, strings.Map(func(c rune) rune {
		if c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9' {
			return c
		}
		return '-'
	}, m.name))
}

// wants reports whether the trial is one of those to be run.
func (r *runner) wants(t *trial) bool {
	if t.simulated() {
		return !r.o.NoSim
	}
	return !r.o.NoCPU
}

const (
	simulator = "simulator.exe"
	bench     = "btlbench.exe"
)

// build builds the programs that the trials of the mechanisms need.
func (r *runner) build(dir string, edits []*patch.Edit, all ...mechanism) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	need, tests := map[string]string{}, map[string]bool{}
	for _, m := range all {
		for i := range m.trials {
			switch t := &m.trials[i]; {
			case !r.wants(t):
			case t.simulated():
				need[simulator] = "./test/mechanisms"
			case t.inPackage() != "":
				tests[t.inPackage()] = true
			default:
				need[bench] = "./cmd/btlbench"
			}
		}
	}
	overlay, err := patch.Overlay(dir, edits...)
	if err != nil {
		return err
	}
	for name, pkg := range need {
		if _, err := r.command("go", "build", "-trimpath", "-buildvcs=false", "-ldflags=-s -w",
			"-overlay="+overlay, "-o", filepath.Join(dir, name), pkg); err != nil {
			return err
		}
	}
	for pkg := range tests {
		if _, err := r.command("go", "test", "-c", "-vet=off", "-trimpath", "-buildvcs=false",
			"-overlay="+overlay, "-o", filepath.Join(dir, testBinary(pkg)), pkg); err != nil {
			return err
		}
	}
	return nil
}

func testBinary(pkg string) string { return path.Base(pkg) + ".test.exe" }

// together runs the simulations of all rows on all CPUs, because nothing disturbs them.
func (r *runner) together(rows []row) error {
	var all errgroup.Group
	all.SetLimit(runtime.NumCPU())
	for i := range rows {
		all.Go(func() error { return r.simulations(&rows[i]) })
	}
	return all.Wait()
}

// simulations runs the trials of a mechanism that run in virtual time.
func (r *runner) simulations(row *row) error {
	for i := range row.trials {
		t := &row.trials[i]
		if !t.simulated() || !r.wants(t) {
			continue
		}
		name := strings.TrimPrefix(t.by, simPrefix)
		with, err := r.simulate(r.folder(nil), name)
		if err != nil {
			return err
		}
		without, err := r.simulate(r.folder(&row.mechanism), name)
		if err != nil {
			return fmt.Errorf("without %s: %w", row.name, err)
		}
		if err := row.result[i].add(t.unit, with, without); err != nil {
			return fmt.Errorf("%s: %w", t.by, err)
		}
		row.show(i)
	}
	return nil
}

// simulate returns the figures of a situation. The same program always has the same figures, so
// that they are kept in a file, whose name has the program's hash.
func (r *runner) simulate(dir, name string) (map[string]float64, error) {
	program := filepath.Join(dir, simulator)
	code, err := os.ReadFile(program)
	if err != nil {
		return nil, err
	}
	hash := sha256.Sum256(append(code, name...))
	kept := filepath.Join(r.dir, fmt.Sprintf("%x.txt", hash[:12]))
	if out, err := os.ReadFile(kept); err == nil {
		return figuresIn(string(out)), nil
	}
	out, err := r.command(program, "simulate", name)
	if err != nil {
		return nil, err
	}
	return figuresIn(out), os.WriteFile(kept, []byte(out), 0o644)
}

// benchmarks runs the other trials of a mechanism once, with the mechanism and without it. The
// order of the two changes from round to round.
func (r *runner) benchmarks(row *row, round int) error {
	for i := range row.trials {
		t := &row.trials[i]
		if t.simulated() || !r.wants(t) {
			continue
		}
		var figures [2]map[string]float64
		for k := range figures {
			which := (k + round) % 2
			dir, args := r.folder(nil), t.by
			if which == 1 {
				dir = r.folder(&row.mechanism)
				if row.swap[1] != "" {
					args = strings.Replace(args, row.swap[0], row.swap[1], 1)
				}
			}
			out, err := r.bench(t, dir, args)
			if err != nil {
				return err
			}
			figures[which] = figuresIn(out)
		}
		if err := row.result[i].add(t.unit, figures[0], figures[1]); err != nil {
			return fmt.Errorf("%s: %w", t.by, err)
		}
		if round == r.o.Rounds-1 {
			row.show(i)
		}
	}
	return nil
}

// bench runs a trial once, with the programs of a folder. The benchmark of a package, which has one
// goroutine, runs on one CPU; btlbench pins its two processes itself.
func (r *runner) bench(t *trial, dir, args string) (string, error) {
	if t.inPackage() == "" {
		words := append([]string{"pair"}, strings.Fields(args)...)
		return r.command(filepath.Join(dir, bench), append(words, "--rounds", "1", "--warmup", "50ms",
			"-t", r.o.Duration.String(), "--format", "gobench")...)
	}
	words := []string{
		filepath.Join(dir, testBinary(t.inPackage())), "-test.run", "^$", "-test.bench",
		"^" + strings.ReplaceAll(strings.Fields(t.by)[2], "/", "$/^") + "$", "-test.benchtime",
		r.o.Duration.String(),
	}
	if pin, err := exec.LookPath("taskset"); err == nil {
		words = append([]string{pin, "-c", "0"}, words...)
	}
	return r.command(words[0], words[1:]...)
}

// figuresIn reads figures with their units, such as those in the lines of Go benchmarks.
func figuresIn(out string) map[string]float64 {
	figures := map[string]float64{}
	lines := bufio.NewScanner(strings.NewReader(out))
	for lines.Scan() {
		words := strings.Fields(lines.Text())
		for i := 0; i+1 < len(words); i++ {
			if x, err := strconv.ParseFloat(words[i], 64); err == nil {
				figures[words[i+1]] = x
			}
		}
	}
	return figures
}

// add adds the figures of a round.
func (o *outcome) add(unit string, with, without map[string]float64) error {
	a, ok := with[unit]
	b, both := without[unit]
	if !ok || !both {
		return fmt.Errorf("no figure in %s: %v, %v", unit, with, without)
	}
	o.with, o.without = append(o.with, a), append(o.without, b)
	return nil
}

// errLimit means that a program took too long.
var errLimit = errors.New("did not end in time")

func (r *runner) command(name string, args ...string) (string, error) {
	ctx, cancel := context.WithTimeoutCause(r.ctx, r.o.Limit, errLimit)
	defer cancel()
	c := exec.CommandContext(ctx, name, args...)
	c.Dir = r.root
	out, err := c.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s", err, exit.Stderr)
		}
		return "", fmt.Errorf("%s %s: %w", filepath.Base(name), strings.Join(args, " "),
			errors.Join(err, context.Cause(ctx)))
	}
	return string(out), nil
}
