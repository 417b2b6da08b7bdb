package btl

import (
	"bytes"
	"errors"
	"strconv"

	"gobtl/btl/internal/meet"
	"gobtl/frag"
)

// Request describes a peer that wants to connect. Its slices are valid only during the call.
type Request struct {
	Address     string // of the peer's command channel, as it is seen here: "192.0.2.1:4000"
	Command     []byte // the same as the fabric writes it
	Data        []byte // of its data channel
	Label       []byte // what its owner calls it (Config.Label); anybody can say anything
	Incarnation uint64 // which life of the peer's module
}

// Is says whether the peer is the module of that name, of the same incarnation. An impostor who
// knows the name, but cannot receive at its address, is not that module.
func (r *Request) Is(name []byte) bool {
	n, err := frag.ParseName(name)
	return err == nil && r.Incarnation == n.Incarnation && bytes.Equal(r.Command, n.Command)
}

// Verdict is the owner's answer to a Request.
type Verdict struct {
	reason uint8
	code   uint16
}

// Accept is the Verdict that lets the peer connect.
func Accept() Verdict { return Verdict{} }

// Refuse tells a peer that it is not wanted: its Connect ends with a RefusedError that has the
// code.
func Refuse(code uint16) Verdict { return Verdict{frag.RejectOwner, code} }

// Defer refuses a peer for now. The peer asks again, at least twice a second, until its handshake
// times out; each time the owner is asked.
func Defer(code uint16) Verdict { return Verdict{frag.RejectLater, code} }

// Admit sets fn to decide on each incoming connection, except from peers that this side connects to
// itself. With nil, the initial setting, every peer is accepted. A peer has proven by then that it
// receives at both its addresses. An accepted peer may still fail before it is connected. Progress
// calls fn, which may do what a handler may. fn may see a peer twice if its first packets repeat,
// and sees it again if its label changes.
func (m *Module) Admit(fn func(Request) Verdict) { m.admission = fn }

// onFirstHello finds or makes the endpoint for a Hello that does not carry its tag, but shows
// that its sender receives at both its addresses. The endpoint is a half-open one that an earlier
// such Hello made, or one that is itself connecting to the sender (simultaneous open) if no other
// end of the peer may use its tag, or a new one. Without an endpoint, answer is the Reject to send;
// if its Reason is 0, no packet is sent.
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

// askOwner returns the Reject for a new peer; its Reason is 0 if the owner accepts the peer.
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

// welcomeAgain asks the owner again about the peer of a half-open endpoint whose label has changed
// since it was accepted. If the owner refuses the peer, or ends the endpoint or the module
// meanwhile, the Hello must change nothing.
func (m *Module) welcomeAgain(ep *Endpoint, hello *frag.Hello) (answer frag.Reject, ok bool) {
	if ep.id.Label == string(hello.Label) {
		return answer, true
	}
	answer = m.askOwner(hello)
	return answer, answer.Reason == 0 && ep.state == stateAccepting && !m.closed && !m.draining
}

// PeerLabel is the label that the peer claims (Config.Label), empty until it is known.
func (ep *Endpoint) PeerLabel() string { return ep.id.Label }

// RemoteName is the peer's human-readable name: its label, quoted, if it has one, and its address.
func (ep *Endpoint) RemoteName() string {
	if ep.id.Label == "" {
		return ep.PeerAddress()
	}
	return strconv.Quote(ep.id.Label) + " at " + ep.PeerAddress()
}

// StateName says in a word how far the connection is: connecting, accepting, connected, lingering
// (the peer has closed it), or ended.
func (ep *Endpoint) StateName() string { return ep.state.String() }

// roomFor returns the reason why no further endpoint of a peer's incarnation may connect from an
// address, 0 if it may. A lingering endpoint gives way to a new one from its address. Silent
// endpoints that hold a place are probed. Those of another incarnation do not count: they end when
// this one connects.
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
