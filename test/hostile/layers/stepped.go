package layers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/frag"
	"gobtl/internal/mono"
	"gobtl/pml"
	"gobtl/vnic"
)

// clock is the clock of modules that are driven by goroutines of the Load.
func clock() func() mono.Time {
	begin := time.Now()
	return func() mono.Time { return mono.Time(1).Add(time.Since(begin)) }
}

// openMessages starts ranks that send messages to rank 0, which sends them back.
func openMessages() (Load, error) {
	b := newBase("pml")
	now := clock()
	layers := make([]*pml.Layer, 1+clients)
	modules := make([]*btl.Module, 1+clients)
	for i := range layers {
		var err error
		if modules[i], err = openModule(btl.Config{}); err != nil {
			return nil, err
		}
		b.ends = append(b.ends, func(context.Context) error { return modules[i].Close() })
		if layers[i], err = pml.New(modules[i], pml.Config{Tag: tag}, nil); err != nil {
			return nil, err
		}
	}
	b.aim(modules[0])
	var peers []*pml.Peer
	for _, m := range modules[1:] {
		ep, err := m.Connect(now(), modules[0].Name())
		if err != nil {
			return nil, err
		}
		peers = append(peers, layers[len(peers)+1].Peer(ep))
	}
	e := &exchange{b: b, layers: layers, peers: peers, now: now}
	b.goes(e.round)
	end := b.ends
	b.ends = []func(context.Context) error{func(ctx context.Context) error {
		b.group.Wait() // The goroutine has the modules.
		var err error
		for _, fn := range end {
			err = errors.Join(err, fn(ctx))
		}
		return err
	}}
	return b, nil
}

// exchange holds the ranks of openMessages.
type exchange struct {
	b      *base
	layers []*pml.Layer
	peers  []*pml.Peer
	now    func() mono.Time
	number uint64
}

// round sends a message of each rank to another rank and back.
func (e *exchange) round(ctx context.Context) error {
	const bytes, there, back = 4096, 1, 2
	e.number++
	var in, out, home, again [clients]pml.Request
	var mem, got [clients][bytes]byte
	now := e.now()
	for i, p := range e.peers {
		msg := make([]byte, bytes)
		binary.LittleEndian.PutUint64(msg, e.number)
		msg[8] = byte(i)
		l := e.layers[i+1]
		if err := errors.Join(
			e.layers[0].Recv(now, &in[i], nil, there, ^uint64(0), mem[i][:]),
			l.Recv(now, &home[i], p, back, ^uint64(0), got[i][:]),
			l.Send(now, &out[i], p, there, msg, pml.Standard)); err != nil {
			return err
		}
	}
	var answered, ended [clients]bool
	for left := clients; left > 0; {
		now = e.now()
		for _, l := range e.layers {
			if _, err := l.Progress(now); err != nil {
				return err
			}
		}
		for i := range clients {
			if in[i].Done() && !answered[i] {
				answered[i] = true
				if err := errors.Join(in[i].Err(),
					e.layers[0].Send(now, &again[i], in[i].Peer(), back, mem[i][:], pml.Standard)); err != nil {
					return err
				}
			}
			if !ended[i] && answered[i] && home[i].Done() && out[i].Done() && again[i].Done() {
				ended[i] = true
				left--
				if binary.LittleEndian.Uint64(got[i][:]) != e.number || got[i][8] != byte(i) {
					return fmt.Errorf("message %d of rank %d came back as another", e.number, i)
				}
				if err := home[i].Err(); err != nil {
					return err
				}
				e.b.work.Add(1)
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// openEthernet starts the management of a virtual Ethernet, with a changing configuration that the
// agents follow. Frames are not sent, because they need devices, which test/vnic has.
func openEthernet() (Load, error) {
	b := newBase("vnic (management)")
	now := clock()
	var stations []*vnic.Station
	manager := vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: 1})
	m, err := openModule(btl.Config{})
	if err != nil {
		return nil, err
	}
	modules := []*btl.Module{m}
	s, err := vnic.NewManagerStation(m, manager, nil)
	if err != nil {
		return nil, err
	}
	stations = append(stations, s)
	b.aim(m)
	b.target.Tag = vnic.TagManagement
	for i := range clients {
		am, err := openModule(btl.Config{})
		if err != nil {
			return nil, err
		}
		d, err := openModule(btl.Config{SendBuffers: 64}) // for a name of the same host
		if err != nil {
			return nil, err
		}
		modules = append(modules, am, d)
		name := [][]byte{dataName(d)}
		a := vnic.NewAgent(vnic.AgentConfig{
			Host: fmt.Sprintf("h%d", i), Manager: "lab", Instance: uint64(i) + 2,
			Ways: vnic.Ways{Receive: name, Send: name, Module: am.Name()},
		})
		s, err := vnic.NewAgentStation(am, a, nil)
		if err != nil {
			return nil, err
		}
		if _, err := s.Dial(now(), m.Name()); err != nil {
			return nil, err
		}
		stations = append(stations, s)
	}
	step := uint8(0)
	b.goes(func(ctx context.Context) error {
		step++
		if err := setPlan(manager, step); err != nil {
			return err
		}
		for synced := 0; synced < clients; {
			for _, s := range stations {
				if _, err := s.Progress(now()); err != nil {
					return err
				}
			}
			synced = 0
			for _, h := range manager.Hosts() {
				if h.Name != "away" && h.Synced && h.Connected {
					synced++
				}
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
		b.work.Add(1)
		return nil
	})
	b.ends = append(b.ends, func(context.Context) error {
		b.group.Wait() // The goroutine has the modules.
		var err error
		for _, m := range modules {
			err = errors.Join(err, m.Close())
		}
		return err
	})
	return b, nil
}

// setPlan makes a configuration, a different one in each step.
func setPlan(m *vnic.Manager, step uint8) error {
	p := &vnic.Plan{Hosts: []vnic.PlanHost{{Name: "away", LID: 1}}}
	sw := vnic.PlanSwitch{Name: "s", ID: 1 + uint16(step%2)}
	for i := range clients {
		h := fmt.Sprintf("h%d", i)
		p.Hosts = append(p.Hosts, vnic.PlanHost{Name: h, LID: uint32(i) + 2})
		sw.Ports = append(sw.Ports, vnic.PlanPort{Host: h})
	}
	p.Switches = append(p.Switches, sw)
	if err := p.Complete(); err != nil {
		return err
	}
	m.SetPlan(p)
	return nil
}

// dataName is the name of a module's data endpoint.
func dataName(m *btl.Module) []byte {
	n, err := frag.ParseName(m.Name())
	if err != nil {
		panic("hostile: " + err.Error()) // It is our own.
	}
	return n.Data
}
