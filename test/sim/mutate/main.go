package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/alecthomas/kong"
	"github.com/jedib0t/go-pretty/v6/table"

	"gobtl/internal/report"
	"gobtl/test/patch"
)

func main() {
	var o options
	kong.Parse(&o, kong.Name("mutate"), kong.UsageOnError(),
		kong.Description("Put deliberate faults into the sources, and show what notices each."))
	if err := o.run(); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are the options of the command line.
type options struct {
	Only       []string      `help:"Prove only these faults, by their names."`
	List       bool          `help:"List the faults and do nothing."`
	Rewrite    bool          `help:"Write the table into test/sim/README.md."`
	Keep       bool          `help:"Keep the files with faults."`
	NoSwarm    bool          `help:"Run the named tests only."`
	Seeds      int           `default:"150" help:"Seeds that the swarm tries for each fault."`
	First      uint64        `default:"1" help:"First of them."`
	Jobs       int           `default:"2" help:"Faults to prove at the same time."`
	Limit      time.Duration `default:"5m" help:"Time that a build or a test may take."`
	SwarmLimit time.Duration `default:"1m" help:"Time that a swarm may take."`
}

func (o *options) run() error {
	all, err := choose(o.Only)
	if err != nil {
		return err
	}
	if o.List {
		for _, m := range all {
			fmt.Printf("%-34s %-12s %s\n", m.name, m.in, m.fault)
		}
		return nil
	}
	if o.Rewrite && (len(o.Only) > 0 || o.NoSwarm) {
		return errors.New("--rewrite needs all faults and the swarm")
	}
	return prove(o, all)
}

// choose returns the faults with the given names, or all faults if no name is given.
func choose(names []string) ([]mutation, error) {
	all := mutations()
	if len(names) == 0 {
		return all, nil
	}
	var chosen []mutation
	for _, name := range names {
		i := slices.IndexFunc(all, func(m mutation) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q; see --list", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// prove tries every fault and reports.
func prove(o *options, all []mutation) error {
	root, err := patch.Root()
	if err != nil {
		return err
	}
	src := patch.NewSources(root)
	faults := make([]fault, len(all))
	for i := range all {
		e, err := all[i].edit(src)
		if err != nil {
			return err
		}
		faults[i] = fault{all[i], e}
	}
	temp, err := os.MkdirTemp("", "mutate")
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if o.Keep {
		fmt.Println("the files with faults are in", temp)
	} else {
		defer func() { _ = os.RemoveAll(temp) }() // what stays is the system's to clean up
	}
	begin := time.Now()
	work := make(chan int)
	results := make([]result, len(all))
	workers := make(chan error, o.Jobs)
	for i := range o.Jobs {
		go func() {
			w := worker{
				o: o, ctx: ctx, root: root, dir: filepath.Join(temp, fmt.Sprint(i)), first: i == 0,
			}
			workers <- w.work(work, faults, results)
		}()
	}
	go func() {
		defer close(work)
		for i := range all {
			select {
			case work <- i:
			case <-ctx.Done():
				return
			}
		}
	}()
	var errs []error
	for range o.Jobs {
		errs = append(errs, <-workers)
	}
	errs = append(errs, ctx.Err())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return tell(o, root, results, time.Since(begin))
}

// tell prints the table, and returns an error if a fault was not detected.
func tell(o *options, root string, results []result, took time.Duration) error {
	text := markdown(results, o)
	fmt.Print("\n", text)
	fmt.Printf("\n%d faults in %v\n", len(results), took.Round(time.Second))
	var bad []string
	for _, r := range results {
		if r.by == "" {
			bad = append(bad, r.name)
		}
	}
	if len(bad) > 0 {
		return fmt.Errorf("nothing notices %s", strings.Join(bad, ", "))
	}
	if !o.Rewrite {
		return nil
	}
	path := filepath.Join(root, "test", "sim", "README.md")
	doc, err := os.ReadFile(path)
	if err != nil {
		return err
	}
	if doc, err = report.Between(doc, marker, text); err != nil {
		return fmt.Errorf("%s: %w", path, err)
	}
	return os.WriteFile(path, doc, 0o644)
}

// marker is the name of the marker lines in the README around the table.
const marker = "mutations"

// markdown returns the table of results.
func markdown(results []result, o *options) string {
	t := report.NewWriter(nil)
	t.AppendHeader(table.Row{"name", "fault", "noticed by", "seeds", "what it said"})
	swarm := 0
	for _, r := range results {
		by, seeds := "nothing", ""
		switch r.by {
		case "":
		case bySwarm:
			swarm++
			by, seeds = bySwarm, fmt.Sprint(r.seeds)
		default:
			by = code(strings.TrimPrefix(r.by, "go test "))
		}
		t.AppendRow(table.Row{r.name, r.fault, by, seeds, code(r.said)})
	}
	return t.RenderMarkdown() + fmt.Sprintf("\n\nOf %d faults the swarm notices %d within %d seeds "+
		"(from %d on), named tests the rest.\n", len(results), swarm, o.Seeds, o.First)
}

// code formats the output of a program as code.
func code(s string) string {
	if s == "" {
		return ""
	}
	return "`" + strings.ReplaceAll(s, "`", "'") + "`"
}
