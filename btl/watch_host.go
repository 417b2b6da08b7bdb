package btl

import (
	"fmt"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/frag"
)

// watchHost is the module as package liveness uses it, to probe silent peers and to end the
// endpoints of dead ones.
type watchHost struct{ m *Module }

// watchOf returns the state that package liveness keeps for an endpoint, and the endpoint's index
// in the table of peers.
func watchOf(ep *Endpoint) (*liveness.Watch, uint32) { return &ep.life, ep.id.Slot }

func (h watchHost) Now() Time   { return h.m.clock.Unpaused }
func (h watchHost) Clock() Time { return h.m.clock.Now }

func (h watchHost) View(ep *Endpoint) liveness.View {
	state := ep.id.State()
	_, next := ep.snd.Window()
	return liveness.View{
		Accepting: state == stateAccepting, Connected: state == stateConnected,
		Lingering: state == stateLingering, Handshaking: ep.id.Handshake() != nil,
		Closing: ep.closing, CloseAt: ep.closeAt, Counted: ep.id.Counted,
		InFlight: ep.snd.InFlight() > 0, Open: ep.snd.Open(), Unsent: ep.waiting(),
		Asks: ep.remote.Waiting() > 0, Next: next,
	}
}

func (h watchHost) Sent(ep *Endpoint) liveness.Sent    { return ep.numbers.Latest() }
func (h watchHost) At(slot uint32) *Endpoint           { return h.m.peers.At(slot) }
func (h watchHost) All() []*Endpoint                   { return h.m.peers.All() }
func (h watchHost) Latest(ep *Endpoint) *Endpoint      { return h.m.peers.ByAddr(ep.id.Addr) }
func (h watchHost) LeadTo(ep *Endpoint)                { h.m.peers.LeadToIfFree(ep) }
func (h watchHost) Handshake(ep *Endpoint)             { h.m.handshakes.OnTimer(ep) }
func (h watchHost) AskLife(ep *Endpoint, nonce uint64) { h.m.handshakes.AskLife(ep, nonce) }
func (h watchHost) Random() uint64                     { return h.m.cfg.Random() }

func (h watchHost) SendRound(ep *Endpoint) time.Duration {
	h.m.handshakes.SendRound(ep)
	return ep.id.Handshake().NextRound()
}

func (h watchHost) ConfirmAgain(ep *Endpoint) time.Duration {
	return h.m.handshakes.ConfirmAgain(ep)
}

func (h watchHost) Ask(ep *Endpoint, channel int) {
	h.m.handshakes.AskHello(ep, frag.Probe(channel))
}

// Question sends a Void, an empty packet that requests an acknowledgement from the peer. Question
// returns false if the packet cannot be sent now.
func (h watchHost) Question(ep *Endpoint) bool {
	if ep.pack.Open() { // the next sequence number is reserved for the open Pack
		sizeBytes := h.m.sealPack(ep)
		if sizeBytes == 0 {
			return false
		}
		h.m.sched.overtook(ep, sizeBytes)
	}
	if !h.m.sendQuestion(ep) {
		return false
	}
	h.m.sched.rearm(ep) // the packet may have used up the credits
	return true
}

func (h watchHost) End(ep *Endpoint, why liveness.Why, v liveness.Verdict) {
	switch why {
	case liveness.WhyDead:
		h.m.end(ep, EventFailed, dead(&v))
	case liveness.WhyBroken:
		h.m.end(ep, EventFailed, fmt.Errorf("%w: the fabric cannot carry its packets", ErrPeerDead))
	case liveness.WhyUnproven:
		h.m.stats.counters[CntPeersFailed]++
		h.m.end(ep, EventFailed, ErrUnreachable)
	case liveness.WhyLingered:
		h.m.end(ep, EventClosed, ErrPeerClosed)
	case liveness.WhyClosed:
		h.m.end(ep, EventClosed, ErrClosed)
	case liveness.WhyReplaced:
		h.m.end(ep, EventFailed, ErrPeerClosed)
	}
}
