package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/path"
	"gobtl/btl/internal/pmtu"
	"gobtl/frag"
)

// pathHost is the module as package path uses it.
type pathHost struct{ m *Module }

// pathOf returns the state that package path keeps for an endpoint, and the index of the endpoint
// in the table of peers.
func pathOf(ep *Endpoint) (*path.Path, uint32) { return &ep.path, ep.id.Slot }

func (h pathHost) Clock() Time                 { return h.m.clock.Now }
func (h pathHost) Now() Time                   { return h.m.clock.Unpaused }
func (h pathHost) Random() uint64              { return h.m.cfg.Random() }
func (h pathHost) At(slot uint32) *Endpoint    { return h.m.peers.At(slot) }
func (h pathHost) Connected(ep *Endpoint) bool { return ep.id.State() == stateConnected }

func (h pathHost) RoundTrip(ep *Endpoint) (trip, deviation time.Duration) {
	p := ep.snd.Path()
	return p.RoundTrip, p.Deviation
}

func (h pathHost) Silence(ep *Endpoint) path.Silence {
	now := h.m.clock.Unpaused
	return path.Silence{
		Quiet: ep.life.Quiet(now), Acked: now.Sub(ep.life.AckedAt()),
		DeadAfter: ep.life.DeadAfter(&h.m.watches.Rules),
	}
}

func (h pathHost) Ping(ep *Endpoint, nonce uint64, sizeBytes int) {
	h.m.sendPing(ep, frag.KindPing, &h.m.port.Data, nonce, max(sizeBytes, frag.PingBytesMin))
}

func (h pathHost) Use(ep *Endpoint, sizeBytes int) {
	m := h.m
	if was := ep.mtu; was != sizeBytes {
		ep.useSize(sizeBytes)
		if ep.mtu < was {
			m.stats.counters[CntPathLowered]++
			m.moveLarge(ep)
		} else {
			m.stats.counters[CntPathRaised]++
		}
	}
	m.sched.rearm(ep)
	m.dirty = true
}

func (h pathHost) EndNarrow(ep *Endpoint, baseBytes int) {
	h.m.endTelling(ep, frag.ByeNarrow, EventFailed,
		fmt.Errorf("%w: none of %d bytes, small ones do", ErrNarrow, baseBytes))
}

// beginPath starts the search for the path MTU of a new connection.
func (t *peerTimers) beginPath(ep *Endpoint) {
	if !ep.id.Counted {
		t.paths.Begin(ep, ep.mtuMost)
	}
}

// overcommit is the module's state for granting peers more receive credits than the buffers hold.
type overcommit struct {
	overruns path.Overruns
	measure  *Endpoint // endpoint whose round trip is to be measured, or nil
}

// openOvercommit allows more receive credits than buffers if the fabric can report overruns of its
// receive buffers.
func (m *Module) openOvercommit() {
	cmd, data := &m.port.Command, &m.port.Data
	capacity := min(cmd.Caps().RecvCapacity, data.Caps().RecvCapacity)
	if !m.port.Reliable() && m.overruns.Init(cmd.Endpoint(), data.Endpoint(), capacity) {
		m.credits.Stretch()
	}
}

func (m *Module) wantsTrip(ep *Endpoint) {
	if !ep.id.Counted && ep.path.MayMeasure(m.clock.Now) && m.credits.Stretches() {
		m.measure = ep
	}
}

// tendOvercommit sends the probe of a requested round-trip measurement, and checks whether the
// receive buffer was overrun.
func (m *Module) tendOvercommit() {
	if ep := m.measure; ep != nil {
		m.measure = nil
		if ep.id.Settled() && ep.path.Begun() {
			nonce := m.cfg.Random()
			ep.path.Measure(m.clock.Now, nonce)
			m.sendPing(ep, frag.KindPing, &m.port.Data, nonce, frag.PingBytesMin)
		}
	}
	if !m.credits.Stretched() {
		m.overruns.Rest()
		return
	}
	if overrun, known := m.overruns.Look(m.clock.Now, m.stats.counters[CntReceived]); known {
		m.credits.Overrun(m.clock.Now, overrun)
	}
}

// pathBase returns the initial datagram size of a connection in bytes, where mostBytes is the
// largest datagram size that the search tries.
func pathBase(mostBytes int) int { return min(mostBytes, pmtu.BaseBytes) }
