package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/compare"
)

// besideCmd runs a command while a neighbour process works on each of the given CPUs. The command
// and the neighbours are children of this process. All children are in the session of this process,
// unless the kind of neighbour requires its own session.
type besideCmd struct {
	Kind    compare.Beside `arg:""`
	CPUs    plan.CPUList   `arg:"" name:"cpus"`
	Command []string       `arg:"" passthrough:""`
}

// Run is called by kong.
func (c *besideCmd) Run(ctx context.Context, env *environment) (err error) {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	runtime.LockOSThread() // a child dies with the thread that started it
	defer runtime.UnlockOSThread()
	for _, cpu := range c.CPUs {
		n := exec.CommandContext(ctx, self, "neighbour", string(c.Kind), strconv.Itoa(cpu))
		in, err := n.StdinPipe()
		if err != nil {
			return err
		}
		if err := n.Start(); err != nil {
			return err
		}
		defer func() {
			_ = in.Close() // ends the neighbour
			_ = n.Wait()
		}()
	}
	cmd := exec.CommandContext(ctx, c.Command[0], c.Command[1:]...)
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, env.stdout, env.stderr
	cmd.SysProcAttr = layers.ChildAttr()
	return cmd.Run()
}

// neighbourCmd is the command of a neighbour, which uses a CPU until standard input ends.
type neighbourCmd struct {
	Kind compare.Beside `arg:""`
	CPU  int            `arg:"" name:"cpu"`
}

// Run is called by kong.
func (c *neighbourCmd) Run() error {
	failed := make(chan error, 1)
	go func() {
		runtime.LockOSThread()
		if err := c.place(); err != nil {
			failed <- err
			return
		}
		c.work()
	}()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin)
		failed <- nil
	}()
	return <-failed
}

// The method place moves the calling thread to the session, the priority and the CPU that the kind
// of neighbour requires.
func (c *neighbourCmd) place() error {
	var err error
	switch c.Kind {
	case compare.Loops, compare.Wakes:
	case compare.Sessions:
		err = ownSession()
	case compare.Nice:
		err = beNice()
	case compare.Alone, compare.Quiet:
		fallthrough
	default:
		err = fmt.Errorf("unknown neighbour %q", c.Kind)
	}
	return errors.Join(err, layers.PinThread(c.CPU))
}

// work uses the CPU, and never returns.
func (c *neighbourCmd) work() {
	const compute, sleep = 100 * time.Microsecond, time.Millisecond
	for {
		if c.Kind != compare.Wakes {
			continue
		}
		for begin := time.Now(); time.Since(begin) < compute; {
		}
		time.Sleep(sleep)
	}
}
