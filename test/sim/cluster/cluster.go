// Package cluster is a simulated network with a module on each node, for programs that run the
// transport in virtual time and add applications and a judge.
//
// One goroutine owns a Cluster and everything in it.
package cluster

import (
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// Cluster is a network and its hosts, in the order in which they were added.
type Cluster struct {
	*sim.Network
	Hosts []*Host

	Steps    uint64 // events so far
	StepsMax uint64 // bounds them, so that what goes wrong ends; 0: no bound
}

// The errors below are returned by Step and Until.
var (
	ErrSteps   = errors.New("no end after so many events")
	ErrPending = errors.New("nothing is pending any more")
	ErrLate    = errors.New("not in time")
)

// New makes a network without hosts.
func New(cfg sim.Config) (*Cluster, error) {
	nw, err := sim.New(cfg)
	if err != nil {
		return nil, err
	}
	return &Cluster{Network: nw}, nil
}

// Add makes a host without a running module.
func (c *Cluster) Add(name string) *Host {
	h := &Host{Node: c.Node(name), cluster: c}
	c.Hosts = append(c.Hosts, h)
	return h
}

// SetPaths gives all paths between hosts the same properties, including the path from each host to
// itself.
func (c *Cluster) SetPaths(p sim.Path) {
	for _, from := range c.Hosts {
		for _, to := range c.Hosts {
			c.SetPath(from.Node, to.Node, p)
		}
	}
}

// Step runs the next event of the network.
func (c *Cluster) Step() error {
	if c.Steps++; c.StepsMax > 0 && c.Steps > c.StepsMax {
		return fmt.Errorf("%w: %d", ErrSteps, c.StepsMax)
	}
	if !c.Network.Step() {
		return ErrPending
	}
	return nil
}

// Until runs events until the argument cond is true, and fails at the time end.
func (c *Cluster) Until(end mono.Time, cond func() bool) error {
	for !cond() {
		if c.Now() >= end {
			return ErrLate
		}
		if err := c.Step(); err != nil {
			return err
		}
	}
	return nil
}

// Advance lets the time d pass.
func (c *Cluster) Advance(d time.Duration) { c.RunUntil(c.Now().Add(d)) }

// The method each calls a function for all modules, up to the first error.
func (c *Cluster) each(ask func(*btl.Module) error) error {
	for _, h := range c.Hosts {
		if h.Mod == nil {
			continue
		}
		if err := ask(h.Mod); err != nil {
			return fmt.Errorf("%s: %w", h.Name(), err)
		}
	}
	return nil
}

// CheckIdle returns an error if a packet or an operation is not complete, or if idle modules hold
// resources.
func (c *Cluster) CheckIdle() error { return c.each((*btl.Module).CheckIdle) }

// Check returns the first error in a module, or the first misuse of the fabric.
func (c *Cluster) Check() error {
	return errors.Join(c.each((*btl.Module).Check), errors.Join(c.Violations()...))
}

// Close closes the modules and frees the network.
func (c *Cluster) Close() error {
	errs := make([]error, len(c.Hosts))
	for i, h := range c.Hosts {
		errs[i] = h.Stop()
	}
	c.Network.Close()
	return errors.Join(errs...)
}

// Judge is called after each poll of a module, with the number of completions and the error of the
// poll. An error of Judge is reported to the network.
type Judge func(completions int, err error) (int, error)

// Host is a node of the network, with or without a module.
type Host struct {
	*sim.Node
	Mod *btl.Module

	cluster *Cluster
	judge   Judge
}

// Open opens the node and a module, which is not polled before Start.
func (h *Host) Open(cfg btl.Config) error {
	dom, err := h.Domain(cfg)
	if err != nil {
		return err
	}
	h.Mod, err = btl.Open(dom, cfg)
	return err
}

// Domain opens the node with the sizes that a module with cfg needs.
func (h *Host) Domain(cfg btl.Config) (fabric.Domain, error) {
	dc, err := cfg.DomainConfig(h.Info())
	if err != nil {
		return nil, err
	}
	return h.Node.Open(dc)
}

// Start begins to poll the module, with a check after each poll if there is a judge.
func (h *Host) Start(judge Judge) {
	h.judge = judge
	h.Run(h)
}

// Progress makes a host a sim.Process, with its module and the judge.
func (h *Host) Progress(now mono.Time) (int, error) {
	n, err := h.Mod.Progress(now)
	if h.judge != nil {
		return h.judge(n, err)
	}
	return n, err
}

// Deadline is the module's deadline.
func (h *Host) Deadline() mono.Time {
	if h.Mod == nil {
		return mono.Never
	}
	return h.Mod.Deadline()
}

// Dial begins to connect to another host.
func (h *Host) Dial(to *Host) (*btl.Endpoint, error) {
	ep, err := h.Mod.Connect(h.cluster.Now(), to.Mod.Name())
	if err == nil {
		h.Kick()
	}
	return ep, err
}

// Connect connects to another host within the time limit.
func (h *Host) Connect(to *Host, limit time.Duration) (*btl.Endpoint, error) {
	ep, err := h.Dial(to)
	if err != nil {
		return nil, err
	}
	if err := h.cluster.Until(h.cluster.Now().Add(limit), ep.Connected); err != nil {
		return nil, fmt.Errorf("%s is not connected to %s: %w: %w", h.Name(), to.Name(), err, ep.Err())
	}
	return ep, nil
}

// Crash simulates the death of the process, without a message to any peer.
func (h *Host) Crash() {
	h.Node.Crash()
	h.Mod = nil
}

// Stop closes the module at once.
func (h *Host) Stop() error {
	if h.Mod == nil {
		return nil
	}
	h.Run(nil)
	err := h.Mod.Close()
	h.Mod = nil
	return err
}
