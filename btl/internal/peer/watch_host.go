package peer

import (
	"fmt"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/stats"
	"gobtl/frag"
	"gobtl/internal/mono"
)

// watchHost gives package liveness access to the module, to probe silent peers and to end the
// endpoints of dead peers.
type watchHost struct{ all *Services }

// watchOf returns the state that package liveness keeps for an endpoint, and the endpoint's index
// in the table of peers.
func watchOf(ep *Endpoint) (*liveness.Watch, uint32) { return &ep.Life, ep.ID.Slot() }

func (h watchHost) Clocks() (unpaused, timers *mono.Time) { return h.all.Clock.Times() }

func (h watchHost) View(ep *Endpoint) liveness.View {
	state := ep.ID.State
	_, next := ep.Snd.Window()
	return liveness.View{
		Accepting: state == stateAccepting, Connected: state == StateConnected,
		Lingering: state == StateLingering, Handshaking: ep.ID.Handshake != nil,
		Closing: ep.Closing, CloseAt: ep.closeAt(), Counted: ep.ID.Counted,
		InFlight: ep.Snd.InFlight() > 0, Open: ep.Snd.Open(), Unsent: ep.waiting(),
		Asks: ep.Remote.Waiting() > 0, Next: next,
	}
}

func (h watchHost) Sent(ep *Endpoint) liveness.Sent    { return ep.Numbers.Latest() }
func (h watchHost) At(slot uint32) *Endpoint           { return h.all.Peers.At(slot) }
func (h watchHost) All() []*Endpoint                   { return h.all.Peers.All() }
func (h watchHost) Latest(ep *Endpoint) *Endpoint      { return h.all.Peers.ByAddr(ep.ID.Addr) }
func (h watchHost) LeadTo(ep *Endpoint)                { h.all.Peers.LeadToIfFree(ep) }
func (h watchHost) Handshake(ep *Endpoint)             { h.all.Handshakes.OnTimer(ep) }
func (h watchHost) AskLife(ep *Endpoint, nonce uint64) { h.all.Handshakes.AskLife(ep, nonce) }
func (h watchHost) Random() uint64                     { return h.all.Config.Random() }

func (h watchHost) SendRound(ep *Endpoint) time.Duration {
	h.all.Handshakes.SendRound(ep)
	return ep.ID.Handshake.NextRound()
}

func (h watchHost) ConfirmAgain(ep *Endpoint) time.Duration {
	return h.all.Handshakes.ConfirmAgain(ep)
}

func (h watchHost) Ask(ep *Endpoint, channel int) {
	h.all.Handshakes.AskHello(ep, frag.Probe(channel))
}

// Question sends a Void, which is an empty packet that requests an acknowledgement from the peer,
// and reports whether the Void was sent.
func (h watchHost) Question(ep *Endpoint) bool {
	if ep.pack.Open() { // the next sequence number is reserved for the open Pack
		sizeBytes := h.all.Packs.sealPack(ep)
		if sizeBytes == 0 {
			return false
		}
		h.all.Sched.overtook(ep, sizeBytes)
	}
	if !h.all.Writer.SendQuestion(ep) {
		return false
	}
	h.all.Sched.Rearm(ep) // the packet has possibly used up the credits
	return true
}

func (h watchHost) End(ep *Endpoint, why liveness.Why, v liveness.Verdict) {
	switch why {
	case liveness.WhyDead:
		h.all.Endings.End(ep, EventFailed, dead(&v))
	case liveness.WhyBroken:
		h.all.Endings.End(ep, EventFailed, fmt.Errorf("%w: the fabric cannot carry its packets",
			errs.ErrPeerDead))
	case liveness.WhyUnproven:
		h.all.Count[stats.CntPeersFailed]++
		h.all.Endings.End(ep, EventFailed, errs.ErrUnreachable)
	case liveness.WhyLingered:
		h.all.Endings.End(ep, EventClosed, errs.ErrPeerClosed)
	case liveness.WhyClosed:
		h.all.Endings.End(ep, EventClosed, errs.ErrClosed)
	case liveness.WhyReplaced:
		h.all.Endings.End(ep, EventFailed, errs.ErrPeerClosed)
	}
}
