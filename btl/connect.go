package btl

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/btl/internal/meet"
	"gobtl/btl/internal/port"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/internal/seq"
)

const (
	// helloCredit is the credit in a Hello. The real credits follow with the first ACK: credits
	// held by peers that have not proven their addresses would be lost to the others.
	helloCredit = 1
)

// Connect returns the endpoint for a module's name, and begins the handshake if there is none yet.
// Messages sent before it is complete are queued. OnEndpoint gets its outcome: ErrUnreachable,
// ErrVersion, ErrStale or ErrRefused if it fails. Connecting to this module's own name works. now
// is the present instant. Errors: ErrBadName, ErrRefused at PeersMax endpoints, ErrClosed.
func (m *Module) Connect(now Time, name []byte) (*Endpoint, error) {
	m.at(now)
	if m.closed || m.draining {
		return nil, ErrClosed
	}
	n, err := frag.ParseName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadName, err)
	}
	if n.Provider != m.port.WireName() {
		return nil, fmt.Errorf("%w: it is of provider %s, this module uses %s", ErrBadName, n.Provider,
			m.port.WireName())
	}
	old := m.peers.ByAddr(string(n.Command))
	if old != nil && old.id.IsLife(n.Incarnation) && !old.closing && old.err == nil &&
		old.state != stateAccepting {
		return old, nil
	}
	if half := m.peers.HalfOpenTo(n.Incarnation, string(n.Command)); half != nil {
		err := m.adopt(half, n.Data, int(n.CommandBytes), int(n.MTUBytes), n.Incarnation)
		if err != nil {
			return nil, err
		}
		m.peers.Displace(half, old)
		return half, nil
	}
	m.giveUpAddr(n.Command)
	m.giveUpAddr(n.Data)
	ep, err := m.newEndpoint(n.Command, n.Data, int(n.CommandBytes), int(n.MTUBytes))
	if err != nil {
		return nil, err
	}
	m.peers.Displace(ep, old)
	m.begin(ep, n.Incarnation, n.Data)
	return ep, nil
}

// begin starts this side's handshake with an incarnation of the peer; data names its data channel.
func (m *Module) begin(ep *Endpoint, incarnation uint64, data []byte) {
	ep.state = stateConnecting
	ep.id.Peer = meet.PeerTag{Incarnation: incarnation}
	ep.hs.Want(incarnation, data, m.nowUnpaused.Add(m.cfg.HandshakeTimeout))
	m.sayHello(ep)
}

// adopt makes a half-open endpoint the one that Connect returns: the peer is connecting too, and
// may know this endpoint's tag already, so that a new endpoint would be a second connection.
// Nothing from the peer's Hello is kept, for it is not proven.
func (m *Module) adopt(
	ep *Endpoint, data []byte, tinyBytes, mtuBytes int, incarnation uint64,
) error {
	dataAddr, err := m.port.Insert(data)
	if err != nil {
		return fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	m.leaveAddr(ep.dataAddr)
	ep.dataAddr = dataAddr
	ep.agreeSizes(&m.port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.settle(agreement{})
	m.peers.ForgetPeer(ep)
	ep.hs = meet.New(m.nowUnpaused, m.newNonces())
	ep.hs.OfferedBefore(ep.id.Peer.Tag)
	m.peers.RemoveHalfOpen(ep.id.Addr)
	m.begin(ep, incarnation, data)
	return nil
}

// newEndpoint takes a slot and inserts the peer's addresses.
func (m *Module) newEndpoint(cmd, data []byte, tinyBytes, mtuBytes int) (*Endpoint, error) {
	if m.peers.Full() {
		m.askSilent(func(*Endpoint) bool { return true })
		return nil, fmt.Errorf("%w on this side: all of PeersMax (%d) are taken", ErrRefused,
			m.cfg.PeersMax)
	}
	cmdAddr, err := m.port.Insert(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: command channel: %w", ErrBadName, err)
	}
	dataAddr, err := m.port.Insert(data)
	if err != nil {
		m.port.Remove(cmdAddr)
		return nil, fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	ep := &Endpoint{m: m, hs: meet.New(m.nowUnpaused, m.newNonces())}
	ep.id.Addr = string(cmd)
	ep.route = route{cmdAddr: cmdAddr, dataAddr: dataAddr}
	ep.agreeSizes(&m.port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.life.Begin(m.nowUnpaused)
	m.peers.Add(ep, m.random())
	ep.initFlows()
	first := m.random()
	ep.snd.Init(ep.id.Slot, seq.Num(first), m.rules.WindowPackets)
	ep.fragIDs.init(uint32(first >> 32))
	ep.rcv.Init(0, m.rules.WindowPackets)
	return ep, nil
}

// onHello answers a Hello with one packet, no longer than it, on the same channel: a HelloAck, or
// a Retry or Reject for an unproven peer. source is the address that the Hello came from, if the
// fabric knows it.
func (m *Module) onHello(c *port.Channel, in *arrival, hello *frag.Hello, source []byte) bool {
	if c.Which() != viaOf(hello.Probe) {
		return false // names another channel than the one it came through
	}
	h := &in.Header
	helloBytes := frag.FragHeaderBytes + int(h.PayloadLen)
	to := source
	if len(to) == 0 {
		to = meet.Claimed(hello, hello.Probe)
	}
	if answer, unfit := meet.Unfit(hello, m.incarnation, m.features()); unfit {
		if answer.Reason != 0 {
			m.reject(c, to, hello.Tag, frag.Version, answer)
		}
		return false
	}
	var ep *Endpoint
	switch {
	case h.Conn != 0:
		if ep = m.peers.Lookup(h.Conn); ep == nil || !ep.id.IsLife(hello.Incarnation) {
			return false
		}
		ep = m.onProvenHello(ep, h, hello)
	case !m.strangers.Proves(m.nowUnpaused, hello, source):
		return m.retry(c, hello, to, helloBytes)
	default:
		var answer frag.Reject
		if ep, answer = m.onFirstHello(h, hello); answer.Reason != 0 {
			answer.Nonce = hello.Nonce
			m.reject(c, to, hello.Tag, frag.Version, answer)
		}
	}
	if ep == nil {
		return false
	}
	if ep.hs != nil {
		ep.hs.Offer(hello.Tag, m.nowUnpaused)
	}
	if h.Conn != 0 {
		to = nil // it is the endpoint's peer
	}
	m.answerHello(ep, hello, helloBytes, to)
	return true
}

// onRetry stores the cookie that the peer demands, and repeats the Hello once it has the cookies of
// both channels.
func (m *Module) onRetry(c *port.Channel, h *frag.Header, r *frag.Retry) bool {
	ep := m.peers.Lookup(h.Conn)
	if ep == nil || ep.state != stateConnecting || c.Which() != viaOf(r.Probe) {
		return false
	}
	ok, hurry := ep.hs.OnRetry(r, m.nowUnpaused)
	if hurry {
		m.hurry(ep)
	}
	return ok
}

// bind records the peer's parameters from a Hello that shows a secret of the peer (cookies or a
// nonce), for an endpoint that is not connected. Earlier parameters may come from an impostor.
func (m *Module) bind(ep *Endpoint, h *frag.Header, hello *frag.Hello) {
	m.peers.SetPeer(ep, meet.PeerTag{Incarnation: hello.Incarnation, Tag: hello.Tag})
	ep.hs.Bind()
	ep.id.Label = string(hello.Label)
	ep.life.Grant(max(0, min(time.Duration(hello.AwayMs)*time.Millisecond, m.cfg.AwayMax)))
	ep.agreeSizes(&m.port, int(hello.CommandBytes), int(hello.MTUBytes), hello.FragBytesMax)
	_, first := ep.snd.Window()
	window := min(m.rules.WindowPackets, 1<<(bits.Len32(hello.WindowPkts)-1))
	ep.snd.Init(ep.id.Slot, first, window)
	ep.rcv.Init(h.Seq, m.rules.WindowPackets)
	ep.asm.Init(m.pool)
	m.agree(ep, hello)
}

// onHelloAck notes that a channel works both ways: it has returned the Hello's nonce.
func (m *Module) onHelloAck(c *port.Channel, h *frag.Header, hello *frag.Hello) bool {
	ep := m.peers.Lookup(h.Conn)
	if ep == nil || !ep.id.IsLife(hello.Incarnation) || c.Which() != viaOf(hello.Probe) {
		return false
	}
	if !m.matchesPeer(ep, h, hello) {
		return false
	}
	hs := ep.hs
	ep.life.Heard(m.nowUnpaused, int(c.Which()))
	m.noteTakes(ep, hello)
	if hs == nil {
		ep.life.AnsweredBy(int(c.Which()), m.nowUnpaused)
		return true
	}
	answers := hs.Answers(hello)
	if ep.state == stateAccepting { // there the peer does the asking, but for askFromHalfOpen
		if !answers || hello.Proven != frag.ProvenAll {
			return false
		}
		if ep = m.lastWord(ep, h, hello); ep == nil {
			return false
		}
		hs = ep.hs
	} else if answers {
		if ep.state != stateConnected {
			m.bind(ep, h, hello)
		}
		hs.Prove(hello.Probe)
	}
	hs.OnHelloAck(hello)
	m.establish(ep)
	return true
}

// establish makes an endpoint connected once both channels are known to work: the passive side
// waits until the peer knows that too, for the peer's handshake may still fail.
func (m *Module) establish(ep *Endpoint) {
	hs := ep.hs
	if !hs.Works() {
		return
	}
	news := ep.state != stateConnected
	if news {
		ep.life.Answered(m.nowUnpaused) // with the proof of its address
		m.beginConnected(ep)
	}
	switch {
	case hs.Confirmed():
		if hs.Unheard() {
			ep.snd.Unheard()
			m.sched.rearm(ep)
		}
		ep.hs = nil
		m.connectedTimer(ep)
		m.beginPath(ep)
		if ep.watches() { // the ACK before may have come too early
			ep.rcv.AskAck(m.now, 0)
			m.acks.owe(ep, m.now)
			m.askMissed(ep)
		}
	case news && !ep.watches():
		hs.BeginConfirm(m.random())
		m.sayHello(ep) // before all else, for a half-open endpoint drops what comes before it
	case ep.watches():
		m.setTimer(ep, 0)
	}
}

// beginConnected starts the work of a connected endpoint, whether or not the peer knows it is.
func (m *Module) beginConnected(ep *Endpoint) {
	ep.state = stateConnected
	ep.life.BeginChannels(m.nowUnpaused, ep.numbers.latest())
	m.credits.Join()
	ep.joined = true
	m.sortQueues(ep)
	for _, earlier := range m.peers.EarlierLives(ep) {
		m.end(earlier, EventFailed, ErrPeerRestarted)
	}
	m.stats.counters[CntPeersConnected]++
	if ep.counted {
		m.stats.counters[CntPeersReliable]++
	}
	m.outbox.note(ep, EventConnected, nil)
	ep.rcv.AskAck(m.now, 0) // brings the peer its credits
	m.acks.owe(ep, m.now)
	m.sched.arm(ep)
	if ep.closing {
		m.beginClose(ep)
	}
	m.dirty = true
}

// sortQueues re-sorts fragments that were queued before the peer's limits were known. Fragments
// larger than a packet of the peer's move to the chunked ones. Fragments that the peer does not
// accept, for their size or kind, fail.
func (m *Module) sortQueues(ep *Endpoint) {
	m.moveLarge(ep)
	m.failTooLarge(ep, &ep.small.queue)
	m.failTooLarge(ep, &ep.large.queue)
	ep.checkFlushed()
}

// moveLarge moves queued small fragments that no longer fit a packet to the large ones.
func (m *Module) moveLarge(ep *Endpoint) {
	moved := false
	for f := ep.small.queue.first; f != nil; {
		next := f.next
		if !ep.fitsPacket(f) {
			m.moveToLarge(ep, f)
			moved = true
		}
		f = next
	}
	waiting := ep.flushes.all()
	for i := range waiting {
		if moved { // some may wait for a little more than they must
			waiting[i].after = ep.lastBefore(waiting[i].fences)
		}
	}
}

// moveToLarge moves a fragment to the front of the large queue, for the last one may be a Bye. A
// partly sent fragment stays ahead, as chunks must not interleave, and so do those of earlier
// fences.
func (m *Module) moveToLarge(ep *Endpoint, f *Fragment) {
	if f.hasSeg {
		m.unfill(f)
	}
	ep.small.queue.remove(f)
	f.large = true
	var behind *Fragment
	for l := ep.large.queue.first; l != nil; l = l.next {
		if l.begun() || l.fence != f.fence && int32(l.fence-f.fence) < 0 {
			behind = l
		}
	}
	ep.large.queue.insert(f, behind)
}

// failTooLarge fails the fragments of a queue that the peer does not accept.
func (m *Module) failTooLarge(ep *Endpoint, q *fragmentList) {
	for f := q.first; f != nil; {
		next := f.next
		if err := ep.cannotTake(f); err != nil {
			if f.hasSeg {
				m.recovery.Unqueue(f.seg)
			}
			if f.OnDone == nil {
				ep.noteUntold(err)
			}
			m.unqueue(ep, f)
			m.complete(f, err)
		}
		f = next
	}
}

// cannotTake returns why a fragment is beyond the peer's announced limits, nil if it is not.
func (ep *Endpoint) cannotTake(f *Fragment) error {
	switch {
	case f.op != nil && !ep.operates:
		return ErrUnsupported
	case f.size > ep.fragBytesMax && !f.isBye():
		return fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, f.size, ep.fragBytesMax)
	}
	return nil
}

// confirmByPacket decides about a packet with the tag of an endpoint that is not connected, or does
// not know that the peer is: the peer sends only Hellos until it knows that both channels work. It
// returns the packet's endpoint, nil to drop the packet: the peer's knowledge proves nothing of the
// addresses to which this side sends.
//
// A half-open endpoint drops the packet, unless the connection is reliable: there no impostor can
// send. The Hello that made the endpoint may be forged. If a packet confirmed the endpoint, it
// would keep the forged sequence numbers, and each side would drop the other's packets. The peer's
// genuine Hello leaves before the packet, and is repeated. A peer that was tricked into believing
// in a confirmation stops repeating its Hello: so this side probes the peer.
func (m *Module) confirmByPacket(ep *Endpoint) *Endpoint {
	switch {
	case ep.state == stateLingering:
		return ep
	case !ep.hs.Bound():
		ep.counting.missed = true
		return nil
	case ep.state == stateAccepting && !ep.counted:
		m.askFromHalfOpen(ep)
		return nil
	case ep.state == stateAccepting:
		if ep = m.validate(ep); ep == nil {
			return nil
		}
	}
	ep.hs.OnPacket()
	if ep.hs.Proven() != frag.ProvenAll {
		ep.counting.missed = true
		m.hurry(ep)
		return nil
	}
	m.establish(ep)
	return ep
}

// onReject ends a handshake that the peer refuses, or a connection to an address where another
// incarnation answers (askLife). The Reject's random nonce proves that it answers a Hello of this
// side, not a forged one. source is the address that the Reject came from, if known.
func (m *Module) onReject(h *frag.Header, r frag.Reject, source []byte) bool {
	ep := m.peers.Lookup(h.Conn)
	if ep != nil && ep.state == stateConnected && ep.saysOtherLife(r, source) {
		m.end(ep, EventFailed, ErrPeerRestarted)
		return true
	}
	if ep == nil || ep.state != stateConnecting ||
		!ep.hs.OnReject(r.Nonce, ep.life.Quiet(m.nowUnpaused)) {
		return false
	}
	if r.Reason == frag.RejectLater {
		ep.hs.PutOff(r.Code)
		return true
	}
	m.end(ep, EventFailed, whyRejected(r))
	return true
}

// whyRejected is the error that a caller gets for a Reject.
func whyRejected(r frag.Reject) error {
	switch r.Reason {
	case frag.RejectVersion:
		return fmt.Errorf("%w: it speaks %d to %d, this side %d", ErrVersion, r.VersionMin, r.VersionMax,
			frag.Version)
	case frag.RejectStale:
		return ErrStale
	case frag.RejectOwner:
		return &RefusedError{Code: r.Code}
	case frag.RejectFeature:
		return fmt.Errorf("%w: it does not have what this side needs", ErrVersion)
	case frag.RejectCrowded:
		return fmt.Errorf("%w at the peer: too many from this address", ErrRefused)
	case frag.RejectAddress:
		return fmt.Errorf("%w at the peer: it cannot send to this side's addresses", ErrRefused)
	}
	return fmt.Errorf("%w at the peer: its tables are full", ErrRefused)
}

// sendProbes sends a round of Hellos: one by each channel that lacks an answer.
func (m *Module) sendProbes(ep *Endpoint) {
	for p := range frag.Probe(frag.ProbeCount) {
		if ep.hs.Asks(p) {
			m.askHello(ep, p)
		}
	}
}

// leaveAddr has the port remove an address of a peer when its last sends have completed.
func (m *Module) leaveAddr(a fabric.Addr) { m.port.Leave(a, m.now.Add(port.CancelAfter)) }

// giveUpAddr cancels the sends queued in the fabric for an address that is about to be inserted
// again. The Hello that follows tells the peer which packets it may miss.
func (m *Module) giveUpAddr(name []byte) {
	m.port.GiveUp(m.now, name)
	m.settleSends()
}
