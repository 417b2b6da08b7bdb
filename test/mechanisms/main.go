package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/alecthomas/kong"

	"gobtl/internal/report"
	"gobtl/test/patch"
	"gobtl/test/sim/matrix"
)

func main() {
	var o options
	c := kong.Parse(&o, kong.Name("mechanisms"), kong.UsageOnError(),
		kong.Description("Measure what each special mechanism of the transport brings."))
	var err error
	if c.Command() == "simulate <name>" {
		err = o.Simulate.run()
	} else {
		err = o.Measure.run()
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "mechanisms:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	Measure  measure  `cmd:"" default:"withargs" help:"Measure all mechanisms."`
	Simulate simulate `cmd:"" hidden:"" help:"Run one simulated situation."`
}

// simulate runs one simulated situation, as a child of the command measure.
type simulate struct {
	Name string `arg:""`
}

func (s *simulate) run() error {
	situation, err := matrix.FindSituation(s.Name)
	if err != nil {
		return err
	}
	figures, err := situation.Run()
	for unit, x := range figures {
		fmt.Println(x, unit)
	}
	return err
}

type measure struct {
	Only       []string      `help:"Measure only these mechanisms, by their names."`
	List       bool          `help:"List the mechanisms and do nothing."`
	NoCPU      bool          `name:"no-cpu" help:"Run only the trials in virtual time."`
	NoSim      bool          `help:"Run only the trials of btlbench."`
	Rounds     int           `default:"5" help:"Rounds of the trials of btlbench."`
	Duration   time.Duration `default:"500ms" help:"Time of such a trial in each round."`
	Limit      time.Duration `default:"10m" help:"Longest time of a build or a run."`
	UpdateDocs string        `type:"existingfile" help:"Document to write the table into."`
}

func (o *measure) run() error {
	all, err := choose(o.Only)
	if err != nil {
		return err
	}
	if o.List {
		for _, m := range all {
			fmt.Printf("%-45s %s\n", m.name, m.switched())
		}
		return nil
	}
	if o.UpdateDocs != "" && (len(o.Only) > 0 || o.NoCPU || o.NoSim) {
		return errors.New("--update-docs needs all mechanisms and all trials")
	}
	root, err := patch.Root()
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	begin := time.Now()
	r := &runner{o: o, ctx: ctx, root: root, dir: filepath.Join(root, "bin", "mechanisms")}
	rows, err := r.measure(all)
	if err != nil {
		return err
	}
	fmt.Print("\n", markdown(rows))
	fmt.Printf("\n%d mechanisms in %v\n", len(rows), time.Since(begin).Round(time.Second))
	if o.UpdateDocs == "" {
		return nil
	}
	doc, err := os.ReadFile(o.UpdateDocs)
	if err != nil {
		return err
	}
	if doc, err = report.Between(doc, marker, head(o)+markdown(rows)); err != nil {
		return fmt.Errorf("%s: %w", o.UpdateDocs, err)
	}
	return os.WriteFile(o.UpdateDocs, doc, 0o644)
}

// choose returns the mechanisms with the given names, or all mechanisms if no name is given.
func choose(names []string) ([]mechanism, error) {
	all := mechanisms()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []mechanism
	for _, name := range names {
		i := slices.IndexFunc(all, func(m mechanism) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no mechanism %q; see --list", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}
