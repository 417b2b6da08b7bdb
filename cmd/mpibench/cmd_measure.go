package main

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"

	"gobtl/btl/runner"
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/mpibench/bench"
	"gobtl/mpi"
)

// The variable waits maps the values of --wait to the ways of waiting.
var waits = map[string]runner.Waiting{
	"adaptive": runner.WaitAdaptive, "busy": runner.WaitBusy, "event": runner.WaitEvent,
}

// Run is called by kong.
func (c *measureCmd) Run(ctx context.Context, env *environment) error {
	ctx, cancel := context.WithTimeoutCause(ctx, c.Limit,
		fmt.Errorf("--limit: not done within %v", c.Limit))
	defer cancel()
	// Only the thread that measures is pinned, and the other threads of the Go runtime are not.
	runtime.LockOSThread()
	cfg := mpi.Config{Wait: waits[c.Wait]}
	cfg.Fabric.Provider, cfg.Fabric.Node = c.Provider, c.Node
	w, err := mpi.Init(ctx, cfg)
	if err != nil {
		return err
	}
	if network := w.Network(); c.Verbose && w.Rank() == 0 {
		env.notef("network: %s (%s)", network.Provider, network.Reason)
	}
	err = c.measure(ctx, env, w)
	c.tellWaits(env, w)
	var misuse *usageError
	if errors.As(err, &misuse) {
		if w.Rank() == 0 { // before the other ranks end
			env.notef("%v", misuse)
		}
		misuse.told = true
		return errors.Join(err, w.Finalize(ctx))
	}
	if errors.Is(err, bench.ErrVerify) {
		return errors.Join(err, w.Finalize(ctx)) // All ranks have the error, and end.
	}
	if err != nil {
		return fmt.Errorf("rank %d: %w", w.Rank(), err)
	}
	return w.Finalize(ctx)
}

// tellWaits logs on request how the rank has waited, and with --wait busy also if other programs
// have used its CPU.
func (c *measureCmd) tellWaits(env *environment, w *mpi.World) {
	waits := w.Waits()
	taken := c.Wait == "busy" && waits.Crowded > 0
	if c.Verbose || taken {
		env.notef("rank %d: %s (preempted %d times, %d yields, %d sleeps)",
			w.Rank(), waits.State.Describe(), waits.Crowded, waits.Yields, waits.Sleeps)
	}
	if taken {
		env.notef("rank %d: --wait busy is for a CPU that nothing else uses", w.Rank())
	}
}

func (c *measureCmd) measure(ctx context.Context, env *environment, w *mpi.World) error {
	if w.Size() < bench.RanksMin {
		return &usageError{err: errors.New("one rank has nobody to measure with: btlrun -n 2 mpibench")}
	}
	ranks := c.Ranks
	if len(ranks) == 0 {
		ranks = []int{w.Size()}
	}
	if n := slices.Max(ranks); n > w.Size() {
		return &usageError{err: fmt.Errorf("--ranks: %d of %d", n, w.Size())}
	}
	if len(c.CPUs) > 0 {
		cpu := c.CPUs[localRank(w)%len(c.CPUs)]
		if err := layers.PinThread(cpu); err != nil {
			return fmt.Errorf("--cpus: %d: %w", cpu, err)
		}
	}
	out := newOutput(env.stdout, c.Format)
	err := bench.Run(ctx, w, bench.Options{
		Tests: c.Test, Sizes: c.Size, Ranks: ranks, Duration: c.Duration, Window: c.Window,
		Threads: c.Threads, Verify: c.Verify, Show: out.show,
	})
	return errors.Join(err, out.flush())
}

// localRank returns this rank's number among the ranks of its host.
func localRank(w *mpi.World) (local int) {
	job := w.Job()
	for r := range w.Rank() {
		if job.NodeOf(r) == job.NodeOf(w.Rank()) {
			local++
		}
	}
	return local
}
