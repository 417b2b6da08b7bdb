package compare

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

// Config selects the comparison, and has no default values.
type Config struct {
	Table  systems.Table
	Rounds int
	// Ping, if not nil, measures the present distance of the two CPUs, which is the time in ns for
	// one way through a cache line, or 0 if it is unknown. Ping is called before and after each
	// measurement, and its result is stored with the measurement. Measurements with an unusual
	// distance of the CPUs are repeated.
	Ping  func() float64
	Each  time.Duration // for each figure of each round
	Limit time.Duration // for each process
	Quick bool          // a few points instead of all
	CPUs  []int         // the client's and the server's; empty leaves both unpinned
	Only  []string      // IDs of systems; empty is all

	// Self is the path of this program, for its command "pair". Present returns the reason why a
	// provider cannot be used.
	Self    string
	Present func(provider string) error
	Machine report.Machine
	// The function Progress, if not nil, is called before each of the steps, where the argument total
	// is the number of steps.
	Progress func(step, total int, what string)
}

// failuresMax is the number of failures in a workload after which a system is not measured any
// more.
const failuresMax = 2

// comparison is a comparison in progress.
type comparison struct {
	cfg     *Config
	host    *systems.Host
	systems []systems.System // that are there
	points  []systems.Point
	report  *Report
	values  map[valueKey]*Result
	skipped map[valueKey]bool
	failed  map[failKey]int
	state   *machineState
}

type valueKey struct {
	id    string
	point systems.Point
}

type failKey struct {
	id       string
	workload systems.Workload
}

// Systems lists the systems that the configuration selects, installed or not, in the order of the
// report.
func Systems(cfg *Config) ([]systems.Info, error) {
	list, err := selected(cfg)
	var infos []systems.Info
	for _, s := range list {
		infos = append(infos, *s.Info())
	}
	return infos, err
}

// program describes this program.
func program(cfg *Config) systems.Program {
	return systems.Program{Self: cfg.Self, Version: cfg.Machine.Version, Present: cfg.Present}
}

// selected lists the systems that the configuration names.
func selected(cfg *Config) ([]systems.System, error) {
	all := systems.All(cfg.Table, program(cfg))
	if len(cfg.Only) == 0 {
		return all, nil
	}
	var list []systems.System
	known := map[string]bool{}
	for _, s := range all {
		known[s.Info().ID] = true
		if slices.Contains(cfg.Only, s.Info().ID) {
			list = append(list, s)
		}
	}
	for _, id := range cfg.Only {
		if !known[id] {
			return nil, fmt.Errorf("no system %q", id)
		}
	}
	return list, nil
}

// Run makes the measurements, and returns the report, which after an error covers the time until
// the error. The error of Run is ctx's cause if ctx ended the run, or the reason why the run could
// not start, and a failed system is recorded in the report.
func Run(ctx context.Context, cfg *Config) (*Report, error) {
	dir, err := os.MkdirTemp("", "btlbench-compare-")
	if err != nil {
		return nil, err
	}
	defer func() { _ = os.RemoveAll(dir) }() // What stays is a few KiB in the temporary directory.
	c := &comparison{
		cfg: cfg, points: systems.Points(cfg.Quick), report: newReport(cfg),
		host:   systems.NewHost(cfg.CPUs, cfg.Each, cfg.Limit, dir),
		values: map[valueKey]*Result{}, skipped: map[valueKey]bool{}, failed: map[failKey]int{},
	}
	begin := time.Now()
	if err := c.probe(ctx); err != nil {
		return nil, err
	}
	err = c.complete(ctx)
	c.report.ElapsedS = float64(time.Since(begin).Round(time.Millisecond)) / float64(time.Second)
	return c.report, err
}

// The method complete makes the rounds and completes the report.
func (c *comparison) complete(ctx context.Context) error {
	err := c.run(ctx)
	c.report.Interrupted = err != nil
	c.report.finish()
	return err
}

// The method probe finds out which systems are installed, and prepares them.
func (c *comparison) probe(ctx context.Context) error {
	all, err := selected(c.cfg)
	if err != nil {
		return err
	}
	for _, s := range all {
		about := *s.Info()
		version, err := s.Probe(ctx, c.host)
		var missing *systems.MissingError
		switch {
		case ctx.Err() != nil:
			return context.Cause(ctx)
		case errors.As(err, &missing):
			about.Missing = missing.What
		case err != nil:
			about.Missing = err.Error()
			c.report.Failures = append(c.report.Failures, Failure{System: about.ID, Message: err.Error()})
		default:
			about.Version = version
			c.systems = append(c.systems, s)
		}
		c.report.Systems = append(c.report.Systems, about)
	}
	return nil
}

// run makes the rounds of measurements. In each round, every workload is measured on every system
// before the next workload, and the order of the systems rotates, so that disturbances of the
// machine affect all systems alike.
func (c *comparison) run(ctx context.Context) error {
	total := c.cfg.Rounds * len(systems.Workloads) * len(c.systems)
	step, turn := 0, 0
	c.state = newMachineState(ctx, c.cfg.Ping, sleepFor)
	c.report.UsualPingNs = report.Significant(c.state.usualNs)
	for round := range c.cfg.Rounds {
		for _, w := range systems.Workloads {
			for i := range c.systems {
				s := c.systems[(i+turn)%len(c.systems)]
				if c.cfg.Progress != nil {
					c.cfg.Progress(step, total, fmt.Sprintf("%s: %s", w, s.Info().Label))
				}
				step++
				if err := c.measure(ctx, s, w, round); err != nil {
					return err
				}
			}
			turn++
		}
	}
	return nil
}

// measure measures one workload on one system once. An error of measure ends the run.
func (c *comparison) measure(ctx context.Context, s systems.System, w systems.Workload, round int,
) error {
	id := s.Info().ID
	key := failKey{id, w}
	if c.failed[key] >= failuresMax {
		return nil
	}
	var todo []systems.Point
	for _, p := range c.points {
		if p.Workload != w {
			continue
		}
		if reason := s.Cannot(p); reason != "" {
			c.skip(id, p, reason)
			continue
		}
		if !c.skipped[valueKey{id, p}] {
			todo = append(todo, p)
		}
	}
	if len(todo) == 0 {
		return nil
	}
	var samples []systems.Sample
	pingNs, err := c.state.measured(ctx, func() (err error) {
		samples, err = s.Measure(ctx, c.host, todo)
		return err
	})
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	for _, sample := range samples {
		c.add(id, sample, round, pingNs)
	}
	var skipped *systems.SkippedError
	switch {
	case errors.As(err, &skipped):
		for p, reason := range skipped.Reasons {
			c.skip(id, p, reason)
		}
	case err != nil:
		c.failed[key]++
		c.report.Failures = append(c.report.Failures, Failure{
			System: id, Workload: w, Round: round + 1, Message: err.Error(),
		})
	}
	return nil
}

// add adds a measured value.
func (c *comparison) add(id string, s systems.Sample, round int, pingNs float64) {
	key := valueKey{id, s.Point}
	r := c.values[key]
	if r == nil {
		r = &Result{System: id, Point: s.Point, Unit: unitOf(s.Workload)}
		c.values[key] = r
		c.report.Results = append(c.report.Results, r)
	}
	r.Rounds = append(r.Rounds, Value{
		Round: round + 1, Value: s.Value, MedianUs: s.MedianUs, ResentRatio: s.ResentRatio,
		LostRatio: s.LostRatio, PingNs: report.Significant(pingNs),
	})
}

// skip records, once, that a system has no result at a point.
func (c *comparison) skip(id string, p systems.Point, reason string) {
	key := valueKey{id, p}
	if c.skipped[key] {
		return
	}
	c.skipped[key] = true
	c.report.Skipped = append(c.report.Skipped, Skip{System: id, Point: p, Reason: reason})
}
