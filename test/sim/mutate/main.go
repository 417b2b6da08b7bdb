package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"
)

func main() {
	if err := run(os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "mutate:", err)
		os.Exit(1)
	}
}

// options are what the command line says.
type options struct {
	only    string
	list    bool
	rewrite bool
	keep    bool
	noSwarm bool
	seeds   int
	first   uint64
	jobs    int
	limit   time.Duration

	swarmLimit time.Duration
}

func run(args []string) error {
	var o options
	f := flag.NewFlagSet("mutate", flag.ContinueOnError)
	f.StringVar(&o.only, "only", "", "prove only these faults: names, separated by commas")
	f.BoolVar(&o.list, "list", false, "list the faults and do nothing")
	f.BoolVar(&o.rewrite, "rewrite", false, "write the table into test/sim/README.md")
	f.BoolVar(&o.keep, "keep", false, "keep the files with faults")
	f.BoolVar(&o.noSwarm, "no-swarm", false, "run the named tests only")
	f.IntVar(&o.seeds, "seeds", 150, "seeds that the swarm tries for each fault")
	f.Uint64Var(&o.first, "first", 1, "first of them")
	f.IntVar(&o.jobs, "jobs", 2, "faults to prove at the same time")
	f.DurationVar(&o.limit, "limit", 5*time.Minute, "time that a build or a test may take")
	f.DurationVar(&o.swarmLimit, "swarm-limit", time.Minute, "time that a swarm may take")
	if err := f.Parse(args); err != nil {
		return err
	}
	all, err := choose(o.only)
	if err != nil {
		return err
	}
	if o.list {
		for _, m := range all {
			fmt.Printf("%-34s %-12s %s\n", m.name, m.in, m.fault)
		}
		return nil
	}
	if o.rewrite && (o.only != "" || o.noSwarm) {
		return errors.New("-rewrite needs all faults and the swarm")
	}
	return prove(&o, all)
}

// choose returns the faults of these names, all of them for none.
func choose(names string) ([]mutation, error) {
	all := mutations()
	if names == "" {
		return all, nil
	}
	var chosen []mutation
	for name := range strings.SplitSeq(names, ",") {
		i := slices.IndexFunc(all, func(m mutation) bool { return m.name == name })
		if i < 0 {
			return nil, fmt.Errorf("there is no fault %q; see -list", name)
		}
		chosen = append(chosen, all[i])
	}
	return chosen, nil
}

// prove tries every fault and reports.
func prove(o *options, all []mutation) error {
	root, err := sourceRoot()
	if err != nil {
		return err
	}
	src := newSources(root)
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
	if o.keep {
		fmt.Println("the files with faults are in", temp)
	} else {
		defer func() { _ = os.RemoveAll(temp) }() // what stays is the system's to clean up
	}
	begin := time.Now()
	work := make(chan int)
	results := make([]result, len(all))
	workers := make(chan error, o.jobs)
	for i := range o.jobs {
		go func() {
			w := worker{o, ctx, root, filepath.Join(temp, fmt.Sprint(i)), i == 0}
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
	for range o.jobs {
		errs = append(errs, <-workers)
	}
	errs = append(errs, ctx.Err())
	if err := errors.Join(errs...); err != nil {
		return err
	}
	return report(o, root, results, time.Since(begin))
}

// report prints the table and fails if a fault survived.
func report(o *options, root string, results []result, took time.Duration) error {
	table := markdown(results, o)
	fmt.Print("\n", table)
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
	if !o.rewrite {
		return nil
	}
	return rewrite(filepath.Join(root, "test", "sim", "README.md"), table)
}
