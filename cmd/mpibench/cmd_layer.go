package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"time"

	"gobtl/btl/runner"
	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/mpibench/bench"
	"gobtl/cmd/mpibench/pair"
)

// layerCmd measures one of the layers of package pair. Without Role, layerCmd starts the two
// processes, each pinned to its CPU.
type layerCmd struct {
	Layer    string        `arg:"" enum:"call,conn,stream"`
	Wait     string        `default:"adaptive" enum:"adaptive,busy,event"`
	MTU      int           `name:"mtu"`
	Test     []string      `required:""`
	Size     []int         `required:""`
	Duration time.Duration `default:"100ms"`
	CPUs     plan.CPUList  `name:"cpus"`
	Role     string        `enum:",serve,measure" default:""`
	Server   string        `help:"Name of the server that --role measure measures against."`
}

// layerWindow is the number of messages in flight in bw, as in the C program of package compare.
const layerWindow = 64

// Run is called by kong.
func (c *layerCmd) Run(ctx context.Context, env *environment) error {
	wait, err := runner.ParseWaiting(c.Wait)
	if err != nil {
		return err
	}
	o := pair.Options{
		Layer: c.Layer, Wait: wait, MTUBytes: c.MTU, Tests: c.Test, Sizes: c.Size,
		Duration: c.Duration, Window: layerWindow,
	}
	switch c.Role {
	case "serve":
		ctx, stop := context.WithCancel(ctx)
		defer stop()
		go func() { // The end of standard input ends the server.
			_, _ = io.Copy(io.Discard, os.Stdin)
			stop()
		}()
		return pair.Serve(ctx, o, env.stdout)
	case "measure":
		lines := json.NewEncoder(env.stdout)
		return pair.Measure(ctx, o, c.Server, func(r bench.Result) error { return lines.Encode(r) })
	}
	return c.both(ctx, env)
}

// both starts the process that serves and the process that measures.
func (c *layerCmd) both(ctx context.Context, env *environment) (err error) {
	runtime.LockOSThread() // The children die with this thread, and inherit its CPU.
	defer runtime.UnlockOSThread()
	server, err := c.command(ctx, env, 1, "serve")
	if err != nil {
		return err
	}
	in, err := server.StdinPipe()
	if err != nil {
		return err
	}
	out, err := server.StdoutPipe()
	if err != nil {
		return err
	}
	if err := server.Start(); err != nil {
		return err
	}
	defer func() {
		_ = in.Close() // ends the server
		err = errors.Join(err, server.Wait())
	}()
	name, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		return fmt.Errorf("the server does not serve: %w", err)
	}
	client, err := c.command(ctx, env, 0, "measure", "--server", strings.TrimSpace(name))
	if err != nil {
		return err
	}
	client.Stdout = env.stdout
	return client.Run()
}

// command returns the command of one of the two processes, and pins this thread to the CPU of that
// process.
func (c *layerCmd) command(ctx context.Context, env *environment, number int, role string,
	more ...string,
) (*exec.Cmd, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	if len(c.CPUs) > 0 {
		if err := layers.PinThread(c.CPUs[number%len(c.CPUs)]); err != nil {
			return nil, err
		}
	}
	var sizes []string
	for _, size := range c.Size {
		sizes = append(sizes, strconv.Itoa(size))
	}
	cmd := exec.CommandContext(ctx, self, append([]string{
		"layer", c.Layer, "--wait", c.Wait, "--mtu", fmt.Sprint(c.MTU),
		"--test", strings.Join(c.Test, ","), "--size", strings.Join(sizes, ","),
		"--duration", c.Duration.String(), "--role", role,
	}, more...)...)
	cmd.Stderr, cmd.SysProcAttr = env.stderr, layers.ChildAttr()
	return cmd, nil
}
