package btl

import (
	"bytes"
	"errors"
	"strconv"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// Request is what a module knows of a peer that wants to connect. Its slices are valid only during
// the call.
type Request struct {
	Address     string // of the peer's command channel, as it is seen here: "192.0.2.1:4000"
	Command     []byte // the same as the fabric writes it
	Data        []byte // of its data channel
	Label       []byte // what its owner calls it (Config.Label); anybody can say anything
	Incarnation uint64 // which life of the peer's module
}

// Is says whether the peer is the module of a name, in the life that the name was made in: somebody
// who knows the name, but does not receive what is sent to its address, is not.
func (r *Request) Is(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && r.Incarnation == n.Incarnation && bytes.Equal(r.Command, n.Command)
}

// Verdict is what an owner says to a Request.
type Verdict struct {
	reason uint8
	code   uint16
}

// Accept lets a peer in.
func Accept() Verdict { return Verdict{} }

// Refuse tells a peer that it is not wanted: its Connect ends with a RefusedError that has the
// code.
func Refuse(code uint16) Verdict { return Verdict{frag.RejectOwner, code} }

// Defer tells a peer that it is not wanted now. It goes on asking, at least twice a second, until
// its handshake's time-out, and the owner is asked each time.
func Defer(code uint16) Verdict { return Verdict{frag.RejectLater, code} }

// Admit has fn asked about each peer that wants to connect and that this side does not connect to
// itself; nil lets everybody in, as does a module at first. A peer has shown by then that it
// receives at both its addresses. What fn lets in may still end before it is connected. fn is
// called from Progress; it may do what a handler may. Repetitions of a peer's first packets may
// have it asked more than once, and one that calls itself something else is asked about again.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// onFirstHello finds or makes the endpoint for a Hello that does not carry its tag, but shows
// that its sender receives at both its addresses. It is the half-open endpoint that an earlier
// one of its kind made, or the endpoint that is itself connecting to the Hello's sender
// (simultaneous opening), unless another end of the peer may use that one's tag already, or a new
// one. If there is none, answer refuses the Hello, unless its Reason is 0: then nothing is said.
func (m *Module) onFirstHello(
	h *frag.Header, hello *frag.Hello,
) (ep *Endpoint, answer frag.Reject) {
	addr := string(hello.CommandName)
	peer := meet.PeerTag{Incarnation: hello.Incarnation, Tag: hello.Tag}
	if ep = m.peers.ByPeer(peer, addr); ep != nil {
		if ep.state == stateAccepting { // the Hello before may have been another's, in the peer's name
			if answer, ok := m.welcomeAgain(ep, hello); !ok {
				return nil, answer
			}
			m.bind(ep, h, hello)
		}
		return ep, answer
	}
	ep = m.peers.ByAddr(addr)
	if ep != nil && ep.state == stateConnecting && ep.id.IsLife(hello.Incarnation) &&
		!ep.hs.Bound() && m.peers.Free(ep, ep.hs.Offered(), hello.Tag) {
		return ep, answer
	}
	if m.peers.HalfOpenFull(addr) || m.draining || m.outbox.full(m.cfg.PeersMax) {
		return nil, answer
	}
	if answer.Reason = m.roomFor(addr, hello.Incarnation); answer.Reason != 0 {
		return nil, answer
	}
	if answer = m.askOwner(hello); answer.Reason != 0 || m.closed || m.draining {
		return nil, answer
	}
	ep, err := m.newEndpoint(hello.CommandName, hello.DataName, int(hello.CommandBytes),
		int(hello.MTUBytes))
	if err != nil {
		answer.Reason = frag.RejectAddress
		if errors.Is(err, ErrRefused) {
			answer.Reason = frag.RejectFull
		}
		return nil, answer
	}
	ep.state = stateAccepting
	m.peers.AddHalfOpen(ep.id.Addr)
	m.bind(ep, h, hello)
	ep.hs.ProveAll()
	m.peers.LeadToIfFree(ep)
	m.setTimer(ep, m.cfg.HandshakeTimeout)
	return ep, answer
}

// askOwner says how a newcomer is to be refused: with a Reason of 0, not at all.
func (m *Module) askOwner(hello *frag.Hello) (answer frag.Reject) {
	if m.admission == nil {
		return answer
	}
	v := m.admission(Request{
		Address: m.formatName(hello.CommandName), Command: hello.CommandName, Data: hello.DataName,
		Label: hello.Label, Incarnation: hello.Incarnation,
	})
	return frag.Reject{Reason: v.reason, Code: v.code}
}

// welcomeAgain asks the owner about a half-open endpoint's peer that now calls itself something
// else than what it was let in with. If it is refused, or the owner has ended the endpoint or the
// module meanwhile, the Hello must change nothing.
func (m *Module) welcomeAgain(ep *Endpoint, hello *frag.Hello) (answer frag.Reject, ok bool) {
	if ep.id.Label == string(hello.Label) {
		return answer, true
	}
	answer = m.askOwner(hello)
	return answer, answer.Reason == 0 && ep.state == stateAccepting && !m.closed && !m.draining
}

// PeerLabel is what the peer's owner calls it (Config.Label), empty until it is known.
func (ep *Endpoint) PeerLabel() string { return ep.id.Label }

// RemoteName names the peer for people: its label, quoted, if it has one, and its address.
func (ep *Endpoint) RemoteName() string {
	if ep.id.Label == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.id.Label) + " at " + ep.PeerAddress()
}

// StateName says in a word how far the connection is: connecting, accepting, connected, lingering
// (the peer has closed it), or ended.
func (ep *Endpoint) StateName() string { return ep.state.String() }

// roomFor says for what reason nobody else of a peer's life may connect from an address, 0 if there
// is none. An endpoint that only lingers makes room for another one from where it was; those that
// are silent and hold a place are asked for a sign of life. What another life is connected with
// ends if this one is established, and so is in nobody's way before.
func (m *Module) roomFor(addr string, life uint64) (reason uint8) {
	others := 0
	if m.peers.AddressFull(addr, 0) {
		others = m.peers.OfOtherLives(addr, life)
		if m.peers.AddressFull(addr, others) {
			oldest := m.peers.OldestLingering(addr, life)
			if oldest == nil {
				m.askSilent(func(ep *Endpoint) bool { return ep.id.Addr == addr })
				return frag.RejectCrowded
			}
			m.end(oldest, EventClosed, ErrPeerClosed)
		}
	}
	if m.peers.HostFull(addr, others) {
		m.askSilent(func(ep *Endpoint) bool { return m.peers.SameHost(ep.id.Addr, addr) })
		return frag.RejectCrowded
	}
	if m.peers.Full() {
		m.askSilent(func(*Endpoint) bool { return true })
		return frag.RejectFull
	}
	return 0
}
