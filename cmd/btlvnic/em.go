//go:build linux

package main

import (
	"bytes"
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/fsnotify/fsnotify"

	"gobtl/btl"
	"gobtl/cmd/btlvnic/agent"
	"gobtl/internal/bounded"
	"gobtl/internal/mono"
	"gobtl/vnic"
	"gobtl/vnic/emfile"
)

// emSettle is the time for which a changed file must stay unchanged before the manager reads it,
// because editors write in several steps.
const emSettle = 50 * time.Millisecond

// tellEvery is the minimum time between two looks at the states of all hosts. Any host can cause
// passes of the manager without a pause.
const tellEvery = 100 * time.Millisecond

// emBytesMax is the largest size of the manager's file in bytes.
const emBytesMax = 64 << 20

// Run is called by kong.
func (c *checkCmd) Run(env *environment) error {
	f, err := readFile(c.File)
	if err != nil {
		return err
	}
	ports := 0
	for i := range f.Plan.Switches {
		ports += len(f.Plan.Switches[i].Ports)
	}
	_, err = fmt.Fprintf(env.stdout, "%s: manager %s, %d hosts, %d switches, %d ports\n", c.File,
		f.Name, len(f.Plan.Hosts), len(f.Plan.Switches), ports)
	return err
}

func readFile(name string) (*emfile.File, error) {
	text, err := os.ReadFile(name)
	if err != nil {
		return nil, err
	}
	return parseFile(name, text)
}

func parseFile(name string, text []byte) (*emfile.File, error) {
	f, err := emfile.Parse(text)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	return f, nil
}

// manager is the state of the command em while it runs. The goroutine of the method loop owns the
// module, the station and the core of the manager.
type manager struct {
	env     *environment
	name    string
	module  *btl.Module
	station *vnic.Station
	core    *vnic.Manager
	ops     chan func()
	ended   chan struct{}
	start   time.Time
	logged  map[string]*hostLog
	tellAt  mono.Time // earliest time of the next call of tell
	text    []byte    // content of the file as read last, owned by watch
}

// Run is called by kong.
func (c *emCmd) Run(env *environment) error {
	text, err := bounded.ReadFile(c.File, emBytesMax)
	if err != nil {
		return err
	}
	f, err := parseFile(c.File, text)
	if err != nil {
		return err
	}
	info, err := c.info()
	if err != nil {
		return err
	}
	module, err := agent.OpenModule(info, nil)
	if err != nil {
		return err
	}
	m := &manager{
		env: env, name: f.Name, text: text, module: module, ops: make(chan func(), 64),
		ended: make(chan struct{}), start: time.Now(), logged: make(map[string]*hostLog),
		core: vnic.NewManager(vnic.ManagerConfig{
			Name: f.Name, Instance: agent.Random(), Lease: f.Lease,
		}),
	}
	m.core.SetPlan(f.Plan)
	prover, err := agent.OpenProver(info)
	if err != nil {
		return errors.Join(err, module.Close())
	}
	defer func() { _ = prover.Close() }() // Nothing waits in the prover.
	if m.station, err = vnic.NewManagerStation(module, m.core, prover); err != nil {
		return err
	}
	ctx, cancel := withCancel(env.ctx)
	defer cancel()
	listener, err := net.Listen("tcp", c.Listen)
	if err != nil {
		return errors.Join(fmt.Errorf("cannot listen: %w; choose another address with --listen", err),
			module.Close())
	}
	defer listener.Close()
	stop, err := serve(env, c.Socket, m.routes(), c.Metrics, m.collector())
	if err != nil {
		return errors.Join(err, module.Close())
	}
	defer stop()
	go m.introduce(listener)
	go m.watch(ctx, c.File)
	if _, err := fmt.Fprintf(env.stdout, "listening on %v\n", listener.Addr()); err != nil {
		return err
	}
	return m.loop(ctx)
}

func withCancel(ctx context.Context) (context.Context, context.CancelFunc) {
	return context.WithCancel(ctx)
}

func (m *manager) now() mono.Time { return mono.Time(time.Since(m.start)) + 1 }

// loop polls the module until ctx is done.
func (m *manager) loop(ctx context.Context) error {
	defer close(m.ended)
	defer m.module.Close()
	wake := context.AfterFunc(ctx, m.module.Wake)
	defer wake()
	for ctx.Err() == nil {
		n, err := m.station.Progress(m.now())
		if err != nil {
			return fmt.Errorf("the transport fails: %w", err)
		}
		for more := true; more; {
			select {
			case fn := <-m.ops:
				fn()
				n++
			default:
				more = false
			}
		}
		now := m.now()
		next := m.tellDue(now).Min(m.station.Deadline())
		if d := min(next.Sub(now), time.Second); n == 0 && d > 0 {
			if err := m.module.Wait(d); err != nil {
				return err
			}
		}
	}
	return nil
}

// hostLog is what the log says about a host. A host can change its state as often as it likes, and
// the number of lines about one host in a second is bounded.
type hostLog struct {
	state string
	lines bounded.Rate
}

// tellDue calls tell, unless tell was called less than tellEvery ago. The result of tellDue is the
// time at which the caller must call tellDue again, or mono.Never if tell was called.
func (m *manager) tellDue(now mono.Time) mono.Time {
	if now < m.tellAt {
		return m.tellAt
	}
	m.tellAt = now.Add(tellEvery)
	m.tell()
	return mono.Never
}

// tell logs the changes of the hosts' states.
func (m *manager) tell() {
	for _, h := range m.core.Hosts() {
		state := "is not connected"
		switch {
		case h.Problem != "":
			state = h.Problem
		case h.Synced:
			state = "is as the file wants it"
		case h.Connected:
			state = "is connected"
		}
		m.note(h.Name, state, h.Connected)
	}
}

// note logs the state of a host if it has changed.
func (m *manager) note(host, state string, connected bool) {
	was := m.logged[host]
	known := was != nil
	if !known {
		was = new(hostLog)
		m.logged[host] = was
	}
	if was.state != state && (known || connected) {
		if before, ok := was.lines.Allow(); ok {
			m.env.notef("host %s: %s%s", host, before, state)
		}
	}
	was.state = state
}

// do runs fn on the goroutine of loop, and returns after fn has returned.
func (m *manager) do(ctx context.Context, fn func()) error {
	done := make(chan struct{})
	select {
	case m.ops <- func() { fn(); close(done) }:
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ended:
		return btl.ErrClosed
	}
	m.module.Wake()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	case <-m.ended:
		return btl.ErrClosed
	}
}

// introduce sends the manager's address to each client that connects to the TCP port.
func (m *manager) introduce(l net.Listener) {
	line, err := json.Marshal(agent.Introduction{
		Protocol: agent.Protocol, Manager: m.name, Module: hex.EncodeToString(m.module.Name()),
	})
	if err != nil {
		m.env.notef("introduction: %v", err)
		return
	}
	line = append(line, '\n')
	for {
		c, err := l.Accept()
		if errors.Is(err, net.ErrClosed) {
			return
		}
		if err != nil { // no free descriptors, or a client that is gone
			time.Sleep(100 * time.Millisecond)
			continue
		}
		// A client that does not read delays nothing, because the introduction fits into every
		// socket buffer.
		_ = c.SetDeadline(time.Now().Add(time.Second))
		_, _ = c.Write(line)
		_ = c.Close()
	}
}

// watch reads the manager's file again after each change. If the file has errors, the manager keeps
// the configuration that it has.
func (m *manager) watch(ctx context.Context, name string) {
	w, err := fsnotify.NewWatcher()
	if err == nil {
		defer func() { _ = w.Close() }() // nothing was written
		err = w.Add(filepath.Dir(name))  // a rename would end the watch of the file itself
	}
	if err != nil {
		m.env.notef("the file is not watched: %v", err)
		return
	}
	settle := time.NewTimer(0) // covers changes before the watch began
	base := filepath.Base(name)
	for {
		select {
		case e, ok := <-w.Events:
			if !ok {
				m.env.notef("the file is no longer watched")
				return
			}
			if filepath.Base(e.Name) == base {
				settle.Reset(emSettle)
			}
		case err := <-w.Errors:
			m.env.notef("watching the file: %v", err)
			settle.Reset(emSettle)
		case <-settle.C:
			m.reload(ctx, name)
		case <-ctx.Done():
			return
		}
	}
}

// reload makes the manager use the configuration in its file. An unchanged file is not reported.
func (m *manager) reload(ctx context.Context, name string) {
	text, err := bounded.ReadFile(name, emBytesMax)
	if err == nil && bytes.Equal(text, m.text) {
		return
	}
	m.text = text
	var f *emfile.File
	if err == nil {
		f, err = parseFile(name, text)
	}
	switch {
	case err != nil:
		m.env.notef("the file is wrong, nothing changes: %v", err)
	case f.Name != m.name:
		m.env.notef("the file is wrong, nothing changes: the manager's name was %s, now %s", m.name,
			f.Name)
	default:
		if m.do(ctx, func() { m.core.SetPlan(f.Plan) }) != nil {
			return // the manager ends
		}
		m.env.notef("the file has changed: %d hosts, %d switches", len(f.Plan.Hosts),
			len(f.Plan.Switches))
	}
}
