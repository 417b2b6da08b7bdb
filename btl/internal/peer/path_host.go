package peer

import (
	"fmt"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/probe"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// pathHost gives package path access to the module.
type pathHost struct{ all *Services }

// pathOf returns the state that package path keeps for an endpoint, and the index of the endpoint
// in the table of peers.
func pathOf(ep *Endpoint) (*probe.Path, uint32) { return &ep.Path, ep.ID.Slot() }

func (h pathHost) Clocks() (unpaused, timers *mono.Time) { return h.all.Clock.Times() }

func (h pathHost) Random() uint64              { return h.all.Config.Random() }
func (h pathHost) At(slot uint32) *Endpoint    { return h.all.Peers.At(slot) }
func (h pathHost) Connected(ep *Endpoint) bool { return ep.ID.State == StateConnected }

func (h pathHost) RoundTrip(ep *Endpoint) (trip, deviation time.Duration) {
	p := ep.Snd.Path()
	return p.RoundTrip, p.Deviation
}

func (h pathHost) Silence(ep *Endpoint) probe.Silence {
	now := h.all.Clock.Unpaused
	return probe.Silence{
		Quiet: ep.Life.Quiet(now), Acked: now.Sub(ep.Life.AckedAt),
		DeadAfter: ep.Life.DeadAfter(&h.all.Timers.Watches.Rules),
	}
}

func (h pathHost) Ping(ep *Endpoint, nonce uint64, sizeBytes int) {
	h.all.Writer.SendPing(ep, frag.KindPing, &h.all.Port.Data, nonce,
		max(sizeBytes, frag.PingBytesMin))
}

func (h pathHost) Use(ep *Endpoint, sizeBytes int) { h.all.Sender.Resize(ep, sizeBytes) }

func (h pathHost) EndNarrow(ep *Endpoint, baseBytes int) {
	h.all.Endings.EndTelling(ep, frag.ByeNarrow, EventFailed,
		fmt.Errorf("%w: none of %d bytes, small ones do", errs.ErrNarrow, baseBytes))
}

// Overcommit is the module's state for granting peers more receive credits than there are receive
// buffers.
type Overcommit struct {
	*Services

	overruns probe.Overruns
	measure  *Endpoint // endpoint whose round trip TendOvercommit measures next, or nil
}

// Open allows more receive credits than buffers if the fabric can report overruns of its
// receive buffers.
func (ov *Overcommit) Open() {
	cmd, data := &ov.Port.Command, &ov.Port.Data
	capacity := min(cmd.Caps.RecvCapacity, data.Caps.RecvCapacity)
	if !ov.Port.Reliable && ov.overruns.Init(cmd.Endpoint, data.Endpoint, capacity) {
		ov.Credits.Stretch()
	}
}

// TendOvercommit sends a Ping if a round-trip measurement was requested, and checks whether the
// receive buffer was overrun.
func (ov *Overcommit) TendOvercommit() {
	if ep := ov.measure; ep != nil {
		ov.measure = nil
		if ep.ID.Settled() && ep.Path.Begun() {
			nonce := ov.Config.Random()
			ep.Path.Measure(ov.Clock.Now, nonce)
			ov.Writer.SendPing(ep, frag.KindPing, &ov.Port.Data, nonce, frag.PingBytesMin)
		}
	}
	if !ov.Credits.Stretched() {
		ov.overruns.Rest()
		return
	}
	if overrun, known := ov.overruns.Look(ov.Clock.Now, ov.Count[stats.CntReceived]); known {
		ov.Credits.Overrun(ov.Clock.Now, overrun)
	}
}
