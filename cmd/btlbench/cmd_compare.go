package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"gobtl/cmd/btlbench/compare"
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/systems"
	"gobtl/fabric"
	"gobtl/internal/report"
)

// compareCmd is the command that compares the transport with other systems.
//
//nolint:lll // A struct tag cannot be broken.
type compareCmd struct {
	Table      string        `help:"network: systems that use the kernel's network. host: systems that use shared memory of one host. Default: ${default}." enum:"network,host" default:"network" placeholder:"NAME"`
	Rounds     int           `help:"Number of rounds; each round measures every system, and the report has medians. Default: ${default}." default:"5" placeholder:"N"`
	Duration   time.Duration `help:"Time for each figure in each round. Default: ${default}." default:"200ms"`
	Quick      bool          `help:"One short round of a few sizes: does everything work?"`
	System     []string      `help:"Measure only these systems; --list names them." placeholder:"NAMES"`
	List       bool          `help:"List the systems and their commands, and measure nothing."`
	CPUs       plan.CPUList  `name:"cpus" help:"The client's and the server's CPU, or none. Default: the first two." placeholder:"LIST"`
	Out        string        `help:"Directory for compare.json, compare.csv and the plots. Default: ${default}." default:"bin/compare" placeholder:"DIR" type:"path"`
	UpdateDocs string        `help:"Write the report into FILE between its lines compare:begin and compare:end, and the plots into plots/ beside it." placeholder:"FILE" type:"path"`
	Limit      time.Duration `help:"Longest time for a measuring process. Default: ${default}." default:"60s"`
}

// Validate is called by kong after parsing.
func (c *compareCmd) Validate() error {
	switch {
	case c.Rounds < 1 || c.Rounds > plan.RoundsMax:
		return fmt.Errorf("--rounds must be 1 to %d", plan.RoundsMax)
	case c.Duration < time.Millisecond || c.Duration > time.Minute:
		return errors.New("--duration must be 1ms to 1m")
	case c.Limit < time.Second || c.Limit > time.Hour:
		return errors.New("--limit must be 1s to 1h")
	case len(c.CPUs) > 2:
		return errors.New("--cpus: two are needed, the client's and the server's")
	}
	return nil
}

// Run is called by kong.
func (c *compareCmd) Run(env *environment) error {
	cfg, err := c.config()
	if err != nil {
		return err
	}
	list, err := compare.Systems(cfg)
	if err != nil {
		return &usageError{fmt.Errorf("--system: %w; \"btlbench compare --list\" has them all", err)}
	}
	if c.List {
		for i := range list {
			fmt.Fprintf(env.stdout, "%-16s %-24s %s\n", list[i].ID, list[i].Label, list[i].Command)
		}
		return nil
	}
	var document []byte
	if c.UpdateDocs != "" {
		// The document is read first, so that a mistyped name is reported before the measurements.
		if document, err = os.ReadFile(c.UpdateDocs); err != nil {
			return fmt.Errorf("--update-docs: %w", err)
		}
	}
	if err := os.MkdirAll(c.Out, 0o755); err != nil {
		return err
	}
	var bar *report.Progress
	cfg.Progress = func(step, total int, what string) {
		if bar == nil {
			bar = report.NewProgress(env.stderr, total)
		} else {
			bar.Step()
		}
		bar.Begin(fmt.Sprintf("%-32s", what))
	}
	result, err := compare.Run(env.ctx, cfg)
	if bar != nil {
		bar.Finish()
	}
	if result == nil {
		return err
	}
	if werr := c.write(env, result, document); werr != nil {
		err = errors.Join(err, fmt.Errorf("writing the report: %w", werr))
	}
	if failed := result.GobtlFailed(); failed != "" && err == nil {
		err = errors.New(failed)
	}
	return err
}

// config returns the configuration of the comparison.
func (c *compareCmd) config() (*compare.Config, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, fmt.Errorf("cannot find this program to start it again: %w", err)
	}
	cfg := &compare.Config{
		Rounds: c.Rounds, Each: c.Duration, Limit: c.Limit, Quick: c.Quick, CPUs: c.CPUs,
		Table: systems.Table(c.Table), Only: c.System, Self: self, Present: providerPresent,
		Machine: report.ThisMachine(),
	}
	if c.Quick {
		cfg.Rounds, cfg.Each = 1, min(c.Duration, 30*time.Millisecond)
	}
	if cfg.CPUs == nil {
		allowed := layers.AllowedCPUs()
		cfg.CPUs = allowed[:min(2, len(allowed))]
	}
	if len(cfg.CPUs) == 2 && !c.Quick {
		cfg.Ping = func() float64 { return layers.PingNs(cfg.CPUs[0], cfg.CPUs[1]) }
	}
	return cfg, nil
}

// providerPresent returns the reason why a provider cannot be used.
func providerPresent(provider string) error {
	hints := fabric.Hints{Provider: provider, Node: loopback.IP.String()}
	if provider == "shm" { // which has no addresses
		hints.Node = ""
	}
	infos, err := fabric.GetInfo(hints)
	if err == nil && len(infos) == 0 {
		err = errors.New("it has no endpoint on the loopback interface")
	}
	return err
}

// write writes the table to standard output, and the other results to files.
func (c *compareCmd) write(env *environment, r *compare.Report, document []byte) error {
	fmt.Fprint(env.stdout, r.Text())
	var doc, csv bytes.Buffer
	if err := errors.Join(r.WriteJSON(&doc), r.WriteCSV(&csv)); err != nil {
		return err
	}
	plots, err := r.Plots()
	if err != nil {
		return err
	}
	files := map[string][]byte{
		filepath.Join(c.Out, r.Name()+".json"): doc.Bytes(),
		filepath.Join(c.Out, r.Name()+".csv"):  csv.Bytes(),
	}
	// An interrupted run does not update the document.
	update := c.UpdateDocs != "" && !r.Interrupted
	if update {
		if files[c.UpdateDocs], err = r.UpdateDocs(document); err != nil {
			return fmt.Errorf("%s: %w", c.UpdateDocs, err)
		}
	}
	for name, svg := range plots {
		files[filepath.Join(c.Out, name)] = []byte(svg)
		if update {
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
