package btl

import (
	"fmt"

	"gobtl/btl/internal/port"
)

// CheckIdle returns an error for the first inconsistency of an idle module. A module is idle if no
// send, handshake or close is in progress and no packet is in flight. In an idle module every
// buffer, timer and descriptor is free, and all lists are empty. In an idle module only connected
// endpoints hold credits, and nothing refers to an ended endpoint. CheckIdle includes Check, and is
// for tests and simulators.
func (m *Module) CheckIdle() error {
	if err := m.Check(); err != nil {
		return err
	}
	if err := m.pool.CheckIdle(); err != nil {
		return fmt.Errorf("btl: idle: %w", err)
	}
	for slot, ep := range m.peers.All() {
		if ep == nil {
			continue
		}
		if err := ep.checkIdle(); err != nil {
			return fmt.Errorf("btl: idle: endpoint %d in state %d: %w", slot, ep.id.State(), err)
		}
	}
	for _, v := range m.idleValues() {
		if v.got != v.want {
			return fmt.Errorf("btl: idle: %d %s, not %d", v.got, v.what, v.want)
		}
	}
	if live := m.peers.Len(); live > 0 {
		return nil
	}
	for t := range m.segs {
		if m.segs[t] != (sendSegment{}) && !m.closed {
			return fmt.Errorf("btl: idle: without peers, send buffer %d refers to one", t)
		}
	}
	if !m.Drained() {
		return fmt.Errorf("btl: idle: without peers, and not drained")
	}
	return nil
}

type idleValue struct {
	what      string
	got, want int
}

func (m *Module) idleValues() []idleValue {
	pending := 0
	if m.deferred.pending {
		pending = 1
	}
	all := []idleValue{
		{"packets in flight", m.recovery.InFlight(), 0},
		{"packets not booked", pending, 0},
		{"endpoints ready", m.sched.Waiting(), 0},
		{"ACKs owed", m.acks.Len(), 0},
		{"fragments to be completed", m.outbox.ended.count + m.outbox.byes.count, 0},
		{"events to be told", m.outbox.notices.Len(), 0},
		{"fragments with the caller", m.frags.lent, 0},
		{"free descriptors", len(m.frags.free), m.frags.count},
		{"regions of fragments", m.frags.payloads.Own(), 0},
		{"half-open endpoints", m.peers.HalfOpen(), 0},
		{"kept connection requests", m.handshakes.Requests(), 0},
		{"reassembly bytes in use", int(m.pool.ActiveBytes()), 0},
		{"bytes of packets in Parts", m.parts.pool.Bytes(), 0},
	}
	if m.closed {
		return all // a closed module has no fabric any more
	}
	all = append(all,
		idleValue{"free send buffers", len(m.freeSegs), m.cfg.SendBuffers},
		idleValue{"free control buffers", m.port.FreeControl(), port.ControlBuffers},
		idleValue{"sends posted", m.port.Command.Posted() + m.port.Data.Posted(), 0},
		idleValue{"sends in batches", m.port.Command.Batched() + m.port.Data.Batched(), 0},
		idleValue{"addresses to be removed", m.port.Leaving(), 0},
		idleValue{
			"receive buffers not posted",
			m.port.Command.ReceivesPending() + m.port.Data.ReceivesPending(), 0,
		},
	)
	if m.peers.Len() == 0 {
		inserted, answers := m.port.Inserted()
		byPeer, byAddr := m.peers.Leads()
		all = append(all,
			idleValue{"connection tags without peers", byPeer, 0},
			idleValue{"addresses without peers", byAddr, 0},
			idleValue{"timers without peers", m.watches.Len() + m.paths.Len(), 0},
			idleValue{"credits granted without peers", m.credits.Granted(), 0},
			idleValue{"addresses inserted without peers", inserted, answers},
		)
	}
	return all
}

func (ep *Endpoint) checkIdle() error {
	switch {
	case ep.id.Handshake() != nil:
		return fmt.Errorf("its handshake is under way")
	case ep.closing && ep.id.State() == stateConnected:
		return fmt.Errorf("its close is under way")
	case ep.life.Superseded() && ep.id.State() == stateConnected:
		return fmt.Errorf("it waits for the end of a connection that the peer has replaced")
	case ep.snd.InFlight() > 0 || ep.waiting():
		return fmt.Errorf("%d packets in flight, %d fragments queued, %d in a pack", ep.snd.InFlight(),
			ep.small.queue.count+ep.large.queue.count, ep.pack.Records())
	case ep.id.State() == stateConnected && !ep.snd.Open():
		return fmt.Errorf("it could send nothing: no credits")
	case ep.buffers != 0:
		return fmt.Errorf("it holds %d send buffers", ep.buffers)
	case ep.rcv.Held() > 0 && ep.id.State() == stateConnected:
		return fmt.Errorf("%d packets wait behind a gap", ep.rcv.Held())
	case ep.asm.Active() > 0:
		return fmt.Errorf("%d fragments are not whole", ep.asm.Active())
	case ep.remote.Waiting() > 0 || ep.remote.Owed() > 0:
		return fmt.Errorf("%d answers are awaited, %d owed", ep.remote.Waiting(), ep.remote.Owed())
	case ep.flushes.Len() > 0:
		return fmt.Errorf("%d calls of Flush wait", ep.flushes.Len())
	}
	return nil
}
