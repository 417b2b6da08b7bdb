//go:build linux

package main

import (
	"errors"
	"fmt"
	"net"
	"net/netip"
	"runtime"
	"slices"
	"strings"
	"time"

	"gobtl/cmd/btlvnic/agent"
	"gobtl/fabric"
	"gobtl/vnic/tap"
)

// addressEvery is the interval at which the agent looks for a missing local address.
const addressEvery = 500 * time.Millisecond

// Run is called by kong.
func (c *agentCmd) Run(env *environment) error {
	// GOMAXPROCS covers all polling threads and the rest of the program, because each polling
	// thread occupies one P of Go's scheduler.
	runtime.GOMAXPROCS(max(runtime.NumCPU(), 2*c.Queues+3))
	// The network device may get its address only after this program has started.
	_, err := net.InterfaceByName(c.host())
	wait := err == nil
	var kept map[uint8]*tap.Device // open devices on their way from one agent to the next
	defer func() { agent.CloseDevices(kept) }()
	for {
		info, err := c.await(env, wait)
		if err != nil {
			return err
		}
		a, err := c.start(env, info, kept)
		if err != nil {
			return err
		}
		err = c.serve(env, info, a)
		if kept = a.Kept(); !errors.Is(err, agent.ErrAddress) {
			return err
		}
		env.notef("%v: binding anew", err)
		wait = true
	}
}

// await returns the network to use. If the argument wait is set and no network is available, await
// waits for a network.
func (c *agentCmd) await(env *environment, wait bool) (fabric.Info, error) {
	for told := false; ; told = true {
		info, err := c.network()
		if err == nil || !wait {
			return info, err
		}
		if !told {
			env.notef("waiting for an address: %v", err)
		}
		select {
		case <-time.After(addressEvery):
		case <-env.ctx.Done():
			return info, err
		}
	}
}

// The method host returns --node without its port.
func (c *agentCmd) host() string {
	if host, _, err := net.SplitHostPort(c.Node); err == nil {
		return host
	}
	return c.Node
}

// network returns the network at the address --node, or the first network whose address fits the
// address of a manager.
func (c *agentCmd) network() (fabric.Info, error) {
	infos, err := c.infos()
	if err != nil {
		return fabric.Info{}, err
	}
	if _, err := netip.ParseAddr(c.host()); err == nil {
		return infos[0], nil
	}
	var there []string
	for i := range infos {
		if slices.ContainsFunc(c.EM, func(em string) bool { return fits(infos[i].Src, em) }) {
			return infos[i], nil
		}
		there = append(there, infos[i].Src)
	}
	return fabric.Info{}, fmt.Errorf("no address fits --em %s, give one by --node: there are %s",
		strings.Join(c.EM, ", "), strings.Join(there, ", "))
}

// fits reports whether packets from an address of this host may reach a manager at em. Two
// addresses fit if both have the same IP version, and if either both or none of them is link-local.
// If the manager is given by a host name, only addresses that are not link-local fit.
func fits(own, em string) bool {
	from, err := netip.ParseAddr(own)
	if err != nil {
		return true // the fabric has no IP addresses
	}
	host, _, _ := net.SplitHostPort(em) // the flags are checked
	to, err := netip.ParseAddr(host)
	if err != nil {
		return !from.IsLinkLocalUnicast()
	}
	from, to = from.Unmap(), to.Unmap()
	return from.Is4() == to.Is4() && from.IsLinkLocalUnicast() == to.IsLinkLocalUnicast()
}

// start opens an agent on a network. The agent owns the kept devices if it is opened.
func (c *agentCmd) start(
	env *environment, info fabric.Info, kept map[uint8]*tap.Device,
) (*agent.Agent, error) {
	return agent.New(agent.Config{
		Host: string(c.Host), Manager: string(c.Manager), Managers: c.EM, Fabric: info, Queues: c.Queues,
		Device: c.Device, FDs: c.fds, Kept: kept, NoOffload: c.NoOffload, Impair: c.faults,
		Log: env.notef,
	})
}

// serve runs an agent until the agent ends.
func (c *agentCmd) serve(env *environment, info fabric.Info, a *agent.Agent) error {
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
