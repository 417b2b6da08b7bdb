package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/compare"
	"gobtl/internal/report"
)

// compareCmd is the command that compares package mpi with other MPI libraries.
//
//nolint:lll // A struct tag cannot be broken.
type compareCmd struct {
	Rounds     int            `default:"3" placeholder:"N" help:"Number of rounds; each round measures everything, and the report has medians. Default: ${default}."`
	Duration   time.Duration  `default:"100ms" help:"Time for each figure in each round. Default: ${default}."`
	Beside     compare.Beside `enum:"none,quiet,loops,sessions,nice,wakes" default:"none" placeholder:"KIND" help:"Other work on each CPU during the tests of busy machines: loops, sessions (loops of other sessions), nice (loops with nice 19), wakes (programs that wake 1000 times a second), or quiet (no other work). none runs the tests of idle machines. Default: ${default}."`
	Layers     bool           `help:"With --beside: measure btl/call, btl/conn and streams beside TCP, instead of MPI."`
	Quick      bool           `help:"One short round of a few sizes: does everything work?"`
	CPUs       plan.CPUList   `name:"cpus" placeholder:"LIST" help:"CPUs to which the ranks are pinned in turn. Default: the first two."`
	Programs   string         `placeholder:"DIR" type:"path" help:"Directory of btlrun and btlbench. Default: the directory of this program."`
	Out        string         `default:"bin/compare" placeholder:"DIR" type:"path" help:"Directory for compare-mpi.json and the plots. Default: ${default}."`
	UpdateDocs string         `placeholder:"FILE" type:"path" help:"Write the report into FILE between its lines compare-mpi:begin and compare-mpi:end, and the plots into plots/ beside it. With --beside KIND the lines are busy-KIND:begin and busy-KIND:end (with --layers layers-busy-KIND), and there are no plots."`
	Limit      time.Duration  `default:"20s" help:"Longest time for a job. Default: ${default}."`
}

// Validate is called by kong after parsing.
func (c *compareCmd) Validate() error {
	const roundsMax = 1000
	switch {
	case c.Rounds < 1 || c.Rounds > roundsMax:
		return fmt.Errorf("--rounds must be 1 to %d", roundsMax)
	case c.Duration < time.Millisecond || c.Duration > time.Minute:
		return errors.New("--duration must be 1ms to 1m")
	case c.Limit < time.Second:
		return errors.New("--limit must be 1s or more")
	case c.Layers && c.Beside == compare.Alone:
		return errors.New("--layers needs --beside, such as --beside quiet")
	}
	return nil
}

// Run is called by kong.
func (c *compareCmd) Run(ctx context.Context, env *environment) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	var document []byte
	if c.UpdateDocs != "" { // An error must not come after a long measurement.
		if document, err = os.ReadFile(c.UpdateDocs); err != nil {
			return fmt.Errorf("--update-docs: %w", err)
		}
	}
	var bar *report.Progress
	cfg.Progress = func(_, total int, what string) {
		if bar == nil {
			bar = report.NewProgress(env.stderr, total)
		} else {
			bar.Step()
		}
		bar.Begin(fmt.Sprintf("%-24s", what))
	}
	r, err := compare.Run(ctx, cfg)
	if bar != nil {
		bar.Finish()
	}
	if r == nil {
		return err
	}
	fmt.Fprint(env.stdout, r.Text(), r.Goals())
	if err != nil { // An incomplete report does not go into a document.
		document = nil
	}
	return errors.Join(err, c.write(env, r, document))
}

func (c *compareCmd) config() (*compare.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start it again: %w", err)
	}
	if c.Programs == "" {
		c.Programs = filepath.Dir(self)
	}
	cfg := &compare.Config{
		Programs: compare.Programs{
			Mpibench: self, Btlrun: filepath.Join(c.Programs, "btlrun"),
			Btlbench: filepath.Join(c.Programs, "btlbench"),
		},
		Rounds: c.Rounds, Each: c.Duration, Limit: c.Limit, CPUs: c.CPUs, Quick: c.Quick,
		Beside: c.Beside, Layers: c.Layers,
		Machine: report.ThisMachine(),
	}
	for _, file := range []string{cfg.Programs.Btlrun, cfg.Programs.Btlbench} {
		if _, err := os.Stat(file); err != nil {
			return nil, &usageError{err: fmt.Errorf("--programs: %w", err)}
		}
	}
	if c.Quick {
		cfg.Rounds, cfg.Each = 1, min(c.Duration, 10*time.Millisecond)
	}
	if cfg.CPUs == nil {
		allowed := layers.AllowedCPUs()
		cfg.CPUs = allowed[:min(2, len(allowed))]
	}
	return cfg, nil
}

// write writes the report and the plots to files.
func (c *compareCmd) write(env *environment, r *compare.Report, document []byte) error {
	plots, err := r.Plots()
	if err != nil {
		return err
	}
	var doc bytes.Buffer
	if err := r.WriteJSON(&doc); err != nil {
		return err
	}
	files := map[string][]byte{filepath.Join(c.Out, r.Named()+".json"): doc.Bytes()}
	if document != nil {
		if files[c.UpdateDocs], err = r.UpdateDocs(document); err != nil {
			return fmt.Errorf("%s: %w", c.UpdateDocs, err)
		}
	}
	for name, svg := range plots {
		files[filepath.Join(c.Out, name)] = []byte(svg)
		if document != nil {
			files[filepath.Join(report.PlotFolder(c.UpdateDocs), name)] = []byte(svg)
		}
	}
	names, err := report.WriteFiles(files)
	if err != nil {
		return err
	}
	env.notef("written: %s", strings.Join(names, ", "))
	return nil
}
