//go:build linux

package main

import (
	"errors"
	"runtime"

	"gobtl/cmd/btlvnic/agent"
)

// Run is called by kong.
func (c *agentCmd) Run(env *environment) error {
	info, err := c.info()
	if err != nil {
		return err
	}
	a, err := agent.New(agent.Config{
		Host: string(c.Host), Manager: string(c.Manager), Managers: c.EM, Fabric: info, Queues: c.Queues,
		Device: c.Device, FDs: c.fds, NoOffload: c.NoOffload, Impair: c.faults, Log: env.notef,
	})
	if err != nil {
		return err
	}
	// A thread that looks for more keeps its place in Go's scheduler: there is one for each of them,
	// and for the rest of the program, or they would keep each other from running.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2*c.Queues+3))
	ended := make(chan error, 1)
	ctx, cancel := withCancel(env.ctx)
	defer cancel()
	go func() { ended <- a.Run(ctx) }()
	stop, err := serve(env, c.Socket, agentRoutes(a), c.Metrics, newAgentCollector(a))
	if err == nil {
		env.notef("host %s on %s (%s), datagrams of %d bytes", c.Host, info.Src, info.Provider,
			info.MTUBytes)
		err = <-ended
		stop()
		return err
	}
	cancel()
	return errors.Join(err, <-ended)
}
