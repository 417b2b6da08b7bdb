package layers

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/mono"
	"gobtl/vnic"
)

const (
	frameBytes   = 1000
	frameBurst   = 16
	frameBuffers = 512
	// frameLost is the number of polls without a frame after which the rest of a burst counts as
	// lost.
	frameLost = 2000
)

// ether is a virtual Ethernet with a manager that verifies addresses, and two hosts without
// devices.
type ether struct {
	b       *base
	now     func() mono.Time
	manager *vnic.Manager
	station *vnic.Station
	hosts   [clients]*etherHost
}

// etherHost is the data path of an agent.
type etherHost struct {
	agent   *vnic.Agent
	station *vnic.Station
	dom     fabric.Domain
	ep      fabric.Endpoint
	arena   fabric.Arena
	host    vnic.Host
	out     *vnic.Egress
	in      *vnic.Ingress
	addrs   map[uint32]fabric.Addr
	lids    map[fabric.Addr]uint32
}

// openFrames starts a Load of frames between the two hosts of a virtual Ethernet. A malicious peer
// knows the manager, and the address at which one host receives frames.
func openFrames() (Load, error) {
	e := &ether{b: newBase("vnic (frames)"), now: clock()}
	m, err := openModule(btl.Config{})
	if err != nil {
		return nil, err
	}
	modules := []*btl.Module{m}
	proofs, err := openDomain(vnic.ProverBuffers)
	if err != nil {
		return nil, err
	}
	number := uint64(time.Now().UnixNano())
	prover, err := vnic.NewProver(proofs, func() uint64 { number += 1 << 40; return number })
	if err != nil {
		return nil, err
	}
	e.manager = vnic.NewManager(vnic.ManagerConfig{Name: "lab", Instance: 1})
	if err := setPlan(e.manager, 0); err != nil {
		return nil, err
	}
	if e.station, err = vnic.NewManagerStation(m, e.manager, prover); err != nil {
		return nil, err
	}
	for i := range e.hosts {
		am, err := openModule(btl.Config{})
		if err != nil {
			return nil, err
		}
		modules = append(modules, am)
		if e.hosts[i], err = e.newHost(i, am, m.Name()); err != nil {
			return nil, err
		}
	}
	e.b.aim(m)
	e.b.target.Tag = vnic.TagManagement
	e.b.target.Address = e.hosts[0].dom.(fabric.Addresser).FormatName(e.hosts[0].ep.Name())
	e.b.goes(e.round)
	e.b.ends = append(e.b.ends, func(context.Context) error {
		e.b.group.Wait() // The goroutine has all of it.
		err := prover.Close()
		for _, h := range e.hosts {
			err = errors.Join(err, h.dom.Close())
		}
		for _, m := range modules {
			err = errors.Join(err, m.Close())
		}
		return err
	})
	return e.b, nil
}

func openDomain(buffers int) (fabric.Domain, error) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "udp", Node: "127.0.0.1"})
	if err != nil {
		return nil, err
	}
	return fabric.Open(infos[0], fabric.DomainConfig{Buffers: buffers, BufferBytes: 2048})
}

func (e *ether) newHost(i int, m *btl.Module, manager []byte) (*etherHost, error) {
	h := &etherHost{addrs: make(map[uint32]fabric.Addr), lids: make(map[fabric.Addr]uint32)}
	var err error
	if h.dom, err = openDomain(frameBuffers); err != nil {
		return nil, err
	}
	if h.ep, err = h.dom.OpenEndpoint(fabric.EndpointConfig{
		RxDepth: frameBuffers, Source: true,
	}); err != nil {
		return nil, err
	}
	h.arena = h.dom.Arena()
	for b := range fabric.Buf(frameBuffers - frameBurst) {
		if _, err := h.ep.Recv([]fabric.Buf{b}); err != nil {
			return nil, err
		}
	}
	fdb, near := new(vnic.FDB), new(vnic.Neighbours)
	h.out, h.in = vnic.NewEgress(fdb, near, nil, 1), vnic.NewIngress(fdb, near, nil)
	name := [][]byte{h.ep.Name()}
	h.agent = vnic.NewAgent(vnic.AgentConfig{
		Host: fmt.Sprintf("h%d", i), Manager: "lab", Instance: uint64(i) + 2,
		Ways: vnic.Ways{Receive: name, Send: name, Module: m.Name()},
	})
	if h.station, err = vnic.NewAgentStation(m, h.agent, nil); err != nil {
		return nil, err
	}
	_, err = h.station.Dial(e.now(), manager)
	return h, err
}

// round makes each host send a burst of frames to the other host, and ends when all frames have
// arrived or are lost.
func (e *ether) round(ctx context.Context) error {
	for i, h := range e.hosts {
		if err := h.burst(e.now(), uint32(2+(i+1)%clients)); err != nil {
			return err
		}
	}
	for came, idle := 0, 0; came < clients*frameBurst && idle < frameLost; idle++ {
		now := e.now()
		if _, err := e.station.Progress(now); err != nil {
			return err
		}
		for _, h := range e.hosts {
			n, err := h.pass(now)
			if err != nil {
				return err
			}
			e.b.work.Add(uint64(n))
			if came += n; n > 0 {
				idle = 0
			}
		}
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return e.alive()
}

// etherWhole is the longest time for which both hosts may be without the manager.
const etherWhole = 5 * time.Second

// alive returns an error if a host has lost its configuration.
func (e *ether) alive() error {
	for _, h := range e.manager.Hosts() {
		if h.Name != "away" && h.SyncedAt != 0 && !h.Connected {
			return fmt.Errorf("the manager has lost host %s: %s", h.Name, h.Problem)
		}
		if h.Name != "away" && h.SyncedAt == 0 && e.now() > mono.Time(etherWhole) {
			return fmt.Errorf("the manager never had host %s: %s", h.Name, h.Problem)
		}
	}
	return nil
}

// burst sends frames to a host, if its address is known.
func (h *etherHost) burst(now mono.Time, to uint32) error {
	addr, known := h.addrs[to]
	t := h.out.Tables()
	if !known || t == nil {
		return nil
	}
	var f [frameBytes]byte
	vnic.MACFor(t.Info.VESW, to).Put(f[:])
	t.Info.BaseMAC.Put(f[6:])
	binary.BigEndian.PutUint16(f[12:], 0x0800)
	sends := make([]fabric.Send, 0, frameBurst)
	for i := range fabric.Buf(frameBurst) {
		d := h.out.Forward(now, f[:], len(f))
		if d.Verdict != vnic.Unicast {
			return fmt.Errorf("a frame is %v", d.Verdict)
		}
		buf := frameBuffers - frameBurst + i
		mem := h.arena.Bytes(buf)
		copy(mem[vnic.HeaderBytes:], f[:])
		p := d.Header.Seal(mem, len(f))
		sends = append(sends, fabric.Send{To: addr, Buf: buf, Len: uint32(len(p))})
	}
	_, err := h.ep.Post(sends)
	if errors.Is(err, fabric.ErrAgain) {
		return nil
	}
	return err
}

// pass polls a host, and returns the number of received frames.
func (h *etherHost) pass(now mono.Time) (frames int, err error) {
	if _, err := h.station.Progress(now); err != nil {
		return 0, err
	}
	for _, p := range h.agent.Proofs() {
		if err := h.post(p.To, p.Data); err != nil {
			return 0, err
		}
	}
	for _, c := range h.agent.Changes() {
		if err := h.apply(now, c); err != nil {
			return 0, err
		}
	}
	var out [64]fabric.Completion
	n, err := h.ep.Poll(out[:])
	if err != nil {
		return 0, err
	}
	for _, c := range out[:n] {
		if c.Op != fabric.OpRecv {
			continue
		}
		mem := h.arena.Bytes(c.Buf)
		mem = mem[:min(int(c.Len), len(mem))]
		if key, number, ok := vnic.ParseProof(mem); ok {
			h.agent.Challenged(key, number)
		} else if a, ok := h.host.Accept(now, h.lids[c.From], mem); ok {
			a.Port.Counts.CountRx(&a.Info, len(a.Frame), 1)
			frames++
		}
		if _, err := h.ep.Recv([]fabric.Buf{c.Buf}); err != nil {
			return frames, err
		}
	}
	return frames, nil
}

// post sends a datagram from a buffer of the next burst.
func (h *etherHost) post(to, data []byte) error {
	addr, err := h.dom.Insert(to)
	if err != nil {
		return err
	}
	const buf = fabric.Buf(frameBuffers - 1)
	n := copy(h.arena.Bytes(buf), data)
	if _, err = h.ep.Post([]fabric.Send{{To: addr, Buf: buf, Len: uint32(n)}}); err != nil {
		return err
	}
	return h.dom.Remove(addr)
}

// apply applies a change, as the threads of an agent do.
func (h *etherHost) apply(now mono.Time, c vnic.Change) error {
	if c.Vport != 0 {
		h.agent.SetLink(now, c.Vport, true)
		t := h.agent.Port(c.Vport).Tables
		h.out.SetTables(t)
		h.host.SetTables(h.in, t)
		return nil
	}
	old := h.addrs
	h.addrs, h.lids = make(map[uint32]fabric.Addr), make(map[fabric.Addr]uint32)
	for _, l := range h.agent.LIDs() {
		a, err := h.dom.Insert(l.Ways.Receive[0])
		if err != nil {
			return err
		}
		h.addrs[l.LID], h.lids[a] = a, l.LID
	}
	for _, a := range old {
		if err := h.dom.Remove(a); err != nil {
			return err
		}
	}
	return nil
}
