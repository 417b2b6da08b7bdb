//go:build linux

package agent

import (
	"bufio"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/vishvananda/netlink"

	"gobtl/internal/mono"
	"gobtl/internal/plain"
	"gobtl/vnic"
	"gobtl/vnic/tap"
)

// applyChanges passes the configuration that the manager has changed to the devices and the
// threads.
func (a *Agent) applyChanges() {
	changes := a.core.Changes()
	for len(changes) > 0 {
		for _, c := range changes {
			if c.Vport == 0 {
				lids := a.core.LIDs()
				a.met(a.peers.Load().lids, lids)
				a.peers.Store(&peers{lids: lids})
				for _, r := range a.receivers {
					a.wakeReceiver(r)
				}
				a.dialAt = 0
				continue
			}
			a.applyPort(a.core.Port(c.Vport), c.Moved)
		}
		changes = a.core.Changes() // an opened device is a further change
	}
}

// wakeReceiver makes a receiver load new addresses at once, because packets from unknown addresses
// are dropped.
func (a *Agent) wakeReceiver(r *receiver) {
	if w, ok := r.link.dom.(interface{ Wake() }); ok {
		w.Wake()
	}
}

func (a *Agent) applyPort(state *vnic.PortState, moved bool) {
	p := a.ports[state.Num]
	if p == nil {
		p = a.newPort(state.Num)
		a.ports[state.Num] = p
	}
	if p.dev == nil && !a.openDevice(p) {
		return
	}
	was := p.tables
	p.tables = state.Tables
	p.learnMu.Lock()
	if moved {
		p.fdb, p.near = vnic.FDB{}, vnic.Neighbours{}
	}
	if t := p.tables; t != nil {
		p.fdb.Configure(t.Options)
		p.fdb.Forget(t.Member)
	}
	p.learnMu.Unlock()
	p.apply(a.datagramBytes())
	a.exchange(p)
	if moved || was == nil || p.tables == nil {
		a.notef("port %d (%s): %s", p.num, p.dev.Name(), describe(p.tables))
	}
	a.dialAt = 0
	if was == nil {
		a.lookAt = 0
	}
}

func describe(t *vnic.Tables) string {
	if t == nil {
		return "on no switch"
	}
	return fmt.Sprintf("on switch %d, MTU %d, carried by %s", t.Info.VESW, t.Info.EthMTU,
		t.Options.Carrier)
}

// exchange replaces the tables of a port that the threads use.
func (a *Agent) exchange(p *port) {
	for i, s := range a.senders {
		s.mu.Lock()
		p.outlets[i].out.SetTables(p.tables)
		p.outlets[i].mtuBytes = s.link.caps.MTUBytes
		if p.pathMTU > 0 {
			p.outlets[i].mtuBytes = min(p.outlets[i].mtuBytes, pathLimit(p.tables, p.pathMTU))
		}
		s.mu.Unlock()
	}
	for i, r := range a.receivers {
		r.mu.Lock()
		r.set(p.inlets[i], p.tables, p.up)
		r.mu.Unlock()
	}
	a.local.mu.Lock()
	a.local.set(p.inlets[len(a.receivers)], p.tables, p.up)
	a.local.mu.Unlock()
}

func (a *Agent) datagramBytes() int { return a.senders[0].link.caps.MTUBytes }

func (a *Agent) newPort(num uint8) *port {
	return &port{num: num, problems: make(map[string]string)}
}

// openTAP takes over a port's device from an earlier Agent, or opens the device. After an error
// openTAP records the error as a problem of the port and returns nil.
func (a *Agent) openTAP(p *port) *tap.Device {
	dev := a.kept[p.num]
	delete(a.kept, p.num)
	if dev != nil && dev.Check() != nil && !dev.Given() { // the interface was removed
		dev.Close()
		dev = nil
	}
	if dev == nil {
		if dev = a.makeTAP(p); dev == nil {
			return nil
		}
	}
	p.try("carrier", dev.SetCarrier(false))
	p.try("dormant", dev.SetDormant(true))
	p.carrier, p.mtu, p.mac = false, 0, 0
	return dev
}

// makeTAP opens a port's device by its name or its descriptors. After an error makeTAP records the
// error as a problem of the port and returns nil.
func (a *Agent) makeTAP(p *port) *tap.Device {
	name := a.cfg.Device
	if strings.Contains(name, "%d") {
		name = strings.Replace(name, "%d", fmt.Sprint(p.num), 1)
	} else if p.num > 1 {
		name = fmt.Sprintf("%s.%d", name, p.num)
	}
	dev, err := tap.Open(tap.Config{
		Name: name, Queues: a.cfg.Queues, NoOffload: a.cfg.NoOffload, FDs: a.cfg.FDs[p.num],
	})
	was := p.problems["device"]
	p.try("device", err)
	if err != nil {
		if p.problems["device"] != was { // the opening is retried, the error logged once
			a.notef("port %d: %v", p.num, err)
		}
		return nil
	}
	if n := len(a.cfg.FDs[p.num]); n > len(dev.Queues()) {
		a.notef("port %d: of %d descriptors %d are used (--queues); the others are closed", p.num, n,
			len(dev.Queues()))
	}
	return dev
}

// openDevice opens a port's device, and passes the queues of the device to the threads.
func (a *Agent) openDevice(p *port) bool {
	dev := a.openTAP(p)
	if dev == nil {
		return false
	}
	p.dev = dev
	for _, s := range a.senders {
		o := &outlet{
			port: p, mtuBytes: s.link.caps.MTUBytes,
			out: vnic.NewEgress(&p.fdb, &p.near, &p.learnMu, len(a.senders)),
		}
		p.outlets = append(p.outlets, o)
		s.mu.Lock()
		s.outlets = append(s.outlets, o)
		s.mu.Unlock()
	}
	for range len(a.receivers) + 1 {
		p.inlets = append(p.inlets, newInlet(p))
	}
	a.attach(p)
	return true
}

// attach passes the queues of a port's device to the threads.
func (a *Agent) attach(p *port) {
	queues := p.dev.Queues()
	for i, s := range a.senders {
		s.mu.Lock()
		if o := p.outlets[i]; i < len(queues) {
			o.queue, o.failures = queues[i], 0
		}
		s.mu.Unlock()
		s.bell.ring()
	}
	for i, n := range p.inlets {
		lock := &a.local.mu
		if i < len(a.receivers) {
			lock = &a.receivers[i].mu
		}
		lock.Lock()
		if i < len(a.receivers) {
			n.attach(queues[i%len(queues)], p.dev)
		} else {
			n.attachAll(queues, p.dev)
		}
		lock.Unlock()
	}
}

// reopen makes the device of a port again after another program has removed it. A device that was
// opened from descriptors cannot be made again.
func (a *Agent) reopen(p *port) {
	if p.dev.Given() {
		return
	}
	dev := a.openTAP(p)
	if dev == nil {
		return
	}
	old := p.dev
	p.dev = dev
	a.attach(p)
	old.Close()
	a.notef("port %d (%s): the interface had been removed and is made anew", p.num, dev.Name())
	p.apply(a.datagramBytes())
}

// look asks the kernel for the state of all devices.
func (a *Agent) look(now mono.Time) {
	for _, p := range a.ports {
		if p == nil {
			continue
		}
		if p.dev == nil {
			if state := a.core.Port(p.num); state != nil {
				a.applyPort(state, true)
			}
			continue
		}
		a.lookAtDevice(now, p)
		p.learnMu.Lock()
		p.fdb.Sweep(now)
		p.learnMu.Unlock()
	}
}

// lookAtDevice asks the kernel for the state of a device, and passes the state to the vnic.Agent
// and the threads.
func (a *Agent) lookAtDevice(now mono.Time, p *port) {
	err := p.dev.Check()
	p.try("device", err)
	if err != nil {
		p.up = false
		a.core.SetLink(now, p.num, false)
		a.reopen(p)
		return
	}
	for i, s := range a.senders { // a queue that failed is tried again
		s.mu.Lock()
		if queues := p.dev.Queues(); i < len(queues) && p.outlets[i].queue == nil {
			p.outlets[i].queue, p.outlets[i].failures = queues[i], 0
			s.bell.ring()
		}
		s.mu.Unlock()
	}
	unicast, multicast, err := p.look()
	p.try("look", err)
	switch {
	case err == nil:
		a.core.SetMACs(now, p.num, unicast, multicast)
		a.checkOwners(now, p)
	case errors.Is(err, tap.ErrMoved):
		p.up = true // frames that the device refuses are counted
	default:
		return
	}
	a.core.SetLink(now, p.num, p.up)
}

// watchLinks makes the control thread look at the devices when the kernel reports a change of a
// link.
func (a *Agent) watchLinks(ctx context.Context) {
	updates := make(chan netlink.LinkUpdate, 16)
	done := make(chan struct{})
	defer close(done)
	if err := netlink.LinkSubscribe(updates, done); err != nil {
		a.notef("changes of interfaces are looked for every %v: %v", lookEvery, err)
		return
	}
	for {
		select {
		case _, ok := <-updates:
			if !ok {
				return
			}
			_ = a.do(ctx, func() { a.lookAt = 0 }) // an error means that the agent ends
		case <-ctx.Done():
			return
		}
	}
}

// Introduction is the message that a manager sends to each client of its TCP port.
type Introduction struct {
	Protocol string `json:"protocol"`
	Manager  string `json:"manager"`
	Module   string `json:"module"` // the module's name, in hexadecimal
}

// Protocol is the version of the introduction and of the management messages. From version 2 on, a
// manager verifies the addresses of hosts.
const Protocol = "btlvnic/2"

// protocolFamily is the beginning of the value of Protocol in all versions.
const protocolFamily = "btlvnic/"

const (
	introductionMax = 4096
	followEvery     = time.Second
	followTimeout   = 3 * time.Second
)

// follow keeps the agent connected to the manager at one address.
func (a *Agent) follow(ctx context.Context, addr string) {
	conn, told := 0, ""
	for ctx.Err() == nil {
		alive := false
		if a.do(ctx, func() { alive = a.station.Alive(conn) }) != nil {
			return
		}
		if !alive {
			name, err := a.ask(ctx, addr)
			if err == nil {
				_ = a.do(ctx, func() { conn, err = a.station.Dial(clock(), name) })
			}
			switch {
			case err != nil && err.Error() != told:
				told = err.Error()
				a.notef("manager at %s: %v", addr, err)
			case err == nil && told != "":
				told = ""
				a.notef("manager at %s is found", addr)
			}
		}
		select {
		case <-time.After(followEvery):
		case <-ctx.Done():
		}
	}
}

// ask reads a manager's introduction from the TCP port at addr, and returns the name of the
// manager's module.
func (a *Agent) ask(ctx context.Context, addr string) (module []byte, err error) {
	d := net.Dialer{Timeout: followTimeout}
	c, err := d.DialContext(ctx, "tcp", addr)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	if err := c.SetDeadline(time.Now().Add(followTimeout)); err != nil {
		return nil, err
	}
	line, err := bufio.NewReader(io.LimitReader(c, introductionMax)).ReadBytes('\n')
	if err != nil {
		return nil, fmt.Errorf("no introduction: %w", err)
	}
	var in Introduction
	err = json.Unmarshal(line, &in)
	switch {
	case err != nil || !strings.HasPrefix(in.Protocol, protocolFamily):
		return nil, fmt.Errorf("no manager of protocol %s answers", Protocol)
	case in.Protocol != Protocol:
		return nil, fmt.Errorf("the manager speaks %s, this agent %s: give both the same version of "+
			"btlvnic", plain.Line(in.Protocol), Protocol)
	}
	if in.Manager != a.cfg.Manager {
		return nil, fmt.Errorf("the manager there is %q, want %q", in.Manager, a.cfg.Manager)
	}
	return hex.DecodeString(in.Module)
}
