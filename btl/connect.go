package btl

import (
	"fmt"
	"time"

	"gobtl/frag"
	"gobtl/internal/seq"
)

const (
	helloIntervalMin = 20 * time.Millisecond
	helloIntervalMax = 500 * time.Millisecond
	// helloCredit is what a Hello promises: the real credits follow with the first ACK, because those
	// of peers that have not proven their address would be lost to the others.
	helloCredit = 1
)

// Connect returns the endpoint for a module's name, and begins the handshake if there is none yet.
// What is sent before it is done waits in the queue. Its outcome is told to OnEndpoint:
// ErrUnreachable, ErrVersion, ErrStale or ErrRefused if it fails. Connecting to this module's own
// name works. now is the present instant. Errors: ErrBadName, ErrRefused when PeersMax are there,
// ErrClosed.
func (m *Module) Connect(now Time, name []byte) (*Endpoint, error) {
	m.at(now)
	if m.closed || m.draining {
		return nil, ErrClosed
	}
	n, err := frag.ParseName(name)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrBadName, err)
	}
	if n.Provider != m.wireName() {
		return nil, fmt.Errorf("%w: it is of provider %s, this module uses %s", ErrBadName, n.Provider,
			m.wireName())
	}
	old := m.byAddr[string(n.Command)]
	if old != nil && old.peer.incarnation == n.Incarnation && !old.closing && old.err == nil &&
		old.state != stateAccepting {
		return old, nil
	}
	if half := m.halfOpenTo(&n); half != nil {
		if err := m.adopt(half, &n); err != nil {
			return nil, err
		}
		m.displace(half, old)
		return half, nil
	}
	ep, err := m.newEndpoint(n.Command, n.Data, int(n.CommandBytes), int(n.MTUBytes))
	if err != nil {
		return nil, err
	}
	m.displace(ep, old)
	m.begin(ep, n.Incarnation)
	return ep, nil
}

// begin starts this side's handshake with an incarnation.
func (m *Module) begin(ep *Endpoint, incarnation uint64) {
	ep.state = stateConnecting
	ep.peer = peerTag{incarnation: incarnation}
	ep.hs.expected, ep.hs.until = incarnation, m.nowUnpaused.Add(m.cfg.HandshakeTimeout)
	m.sayHello(ep)
}

// adopt makes a half-open endpoint the caller's: the peer is connecting too, and may know this
// endpoint's tag already, so that another endpoint in its place would be a second connection. Of
// what the peer's Hello said nothing is kept, for none of it is proven.
func (m *Module) adopt(ep *Endpoint, n *frag.Name) error {
	dataAddr, err := m.insert(n.Data)
	if err != nil {
		return fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	m.leaveAddr(ep.dataAddr)
	ep.dataAddr = dataAddr
	ep.agreeSizes(&m.port, int(n.CommandBytes), int(n.MTUBytes), fragBytesUnknown)
	ep.counted = false
	m.forgetPeer(ep)
	offered := ep.peer.tag // knows this endpoint's tag
	ep.hs = newHandshake()
	ep.hs.offered = offered
	m.halfOpen--
	m.begin(ep, n.Incarnation)
	return nil
}

// newEndpoint takes a slot and inserts the peer's addresses.
func (m *Module) newEndpoint(cmd, data []byte, tinyBytes, mtuBytes int) (*Endpoint, error) {
	if m.slots.Full() {
		m.askSilent(func(*Endpoint) bool { return true })
		return nil, fmt.Errorf("%w on this side: all of PeersMax (%d) are taken", ErrRefused,
			m.cfg.PeersMax)
	}
	cmdAddr, err := m.insert(cmd)
	if err != nil {
		return nil, fmt.Errorf("%w: command channel: %w", ErrBadName, err)
	}
	dataAddr, err := m.insert(data)
	if err != nil {
		m.removeAddr(cmdAddr)
		return nil, fmt.Errorf("%w: data channel: %w", ErrBadName, err)
	}
	ep := &Endpoint{m: m, hs: newHandshake()}
	ep.addrKey = string(cmd)
	ep.route = route{cmdAddr: cmdAddr, dataAddr: dataAddr}
	ep.agreeSizes(&m.port, tinyBytes, mtuBytes, fragBytesUnknown)
	ep.heardAt, ep.waitSince = m.nowUnpaused, m.nowUnpaused
	m.peers.add(ep, m.random())
	ep.initFlows()
	first := m.random()
	ep.snd.Init(ep.slot, seq.Num(first), m.rules.WindowPackets)
	ep.nextFragID = uint32(first >> 32)
	ep.rcv.Init(0, m.rules.WindowPackets)
	return ep, nil
}

// onHello answers a Hello with one HelloAck of the same size on the same channel.
func (m *Module) onHello(c *channel, h *frag.Header, hello *frag.Hello) bool {
	if (hello.Probe&frag.ProbeData != 0) != (c == &m.data) {
		return false // names another channel than the one it came through
	}
	if hello.Expected != 0 && hello.Expected != m.incarnation {
		if hello.Incarnation == m.incarnation {
			return false // this module's own, to another one: somebody has sent it back
		}
		m.reject(hello.CommandName, hello.Tag, frag.RejectStale, frag.Version)
		return false
	}
	var ep *Endpoint
	if h.Conn != 0 {
		if ep = m.lookup(h.Conn); ep == nil || ep.peer.incarnation != hello.Incarnation {
			return false
		}
		if ep = m.onProvenHello(ep, h, hello); ep == nil {
			return false
		}
	} else if ep = m.onFirstHello(h, hello); ep == nil {
		return false
	}
	if ep.hs != nil {
		ep.hs.offered = hello.Tag
	}
	m.sendHello(ep, frag.KindHelloAck, hello.Probe, hello.Tag, frag.FragHeaderBytes+int(h.PayloadLen))
	return true
}

// bind notes what a peer says of itself. Until the endpoint is connected a later Hello may correct
// it.
func (m *Module) bind(ep *Endpoint, h *frag.Header, hello *frag.Hello) {
	m.setPeer(ep, peerTag{hello.Incarnation, hello.Tag})
	ep.hs.bound, ep.hs.proven = true, 0
	ep.agreeSizes(&m.port, int(hello.CommandBytes), int(hello.MTUBytes), hello.FragBytesMax)
	_, first := ep.snd.Window()
	window := min(m.rules.WindowPackets, floorPowerOf2(int(hello.WindowPkts)))
	ep.snd.Init(ep.slot, first, window)
	ep.rcv.Init(h.Seq, m.rules.WindowPackets)
	ep.asm.Init(m.pool)
	m.agree(ep, hello)
}

// features are the optional abilities of this side.
func (m *Module) features() (bits uint64) {
	if m.rules.Adaptive {
		bits |= frag.FeatureSack
	}
	if m.mayCount {
		bits |= frag.FeatureReliable
	}
	return bits
}

// onHelloAck books a probe that made the round trip.
func (m *Module) onHelloAck(h *frag.Header, hello *frag.Hello) bool {
	ep := m.lookup(h.Conn)
	if ep == nil || ep.peer.incarnation != hello.Incarnation {
		return false
	}
	if !m.matchesPeer(ep, h, hello) {
		return false
	}
	hs := ep.hs
	if hs == nil {
		m.heard(ep) // answers a keep-alive
		ep.answered = true
		return true
	}
	m.heard(ep)
	hs.proven |= hello.Probe.Bit()
	if hello.Proven == frag.ProvenAll {
		hs.confirmed = true
	}
	if ep.state != stateAccepting { // there the peer does the asking
		m.establish(ep)
	}
	return true
}

// establish makes an endpoint connected once all four probes are known to have made the round trip.
func (m *Module) establish(ep *Endpoint) {
	hs := ep.hs
	if hs.proven != frag.ProvenAll {
		return
	}
	if ep.state != stateConnected {
		ep.state = stateConnected
		m.credits.Join()
		ep.joined = true
		m.sortQueues(ep)
		m.endDisplaced(ep)
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
	if hs.confirmed {
		ep.hs = nil
		m.connectedTimer(ep)
		m.beginPath(ep)
		if ep.watches() { // the ACK before may have come too early
			ep.rcv.AskAck(m.now, 0)
			m.acks.owe(ep, m.now)
		}
	} else {
		m.setTimer(ep, 0)
	}
}

// endDisplaced ends the connections to earlier incarnations of a peer that was reached under a new
// one.
func (m *Module) endDisplaced(ep *Endpoint) {
	for d := ep.displaced; d != nil; d = d.displaced {
		if d.peer.incarnation != ep.peer.incarnation &&
			(d.state == stateConnecting || d.state == stateConnected) {
			m.end(d, EventFailed, ErrPeerRestarted)
		}
	}
	ep.displaced = nil
}

// sortQueues puts what was queued before the peer could say how much it takes where it belongs: a
// fragment that is larger than a packet of the peer's among the others in chunks, and one that is
// larger than any that the peer takes nowhere.
func (m *Module) sortQueues(ep *Endpoint) {
	m.moveLarge(ep)
	m.failTooLarge(ep, &ep.small.queue)
	m.failTooLarge(ep, &ep.large.queue)
	ep.checkFlushed()
}

// moveLarge has the small fragments that wait and fit no packet leave as large ones.
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
			waiting[i].after = ep.lastQueued()
		}
	}
}

// moveToLarge moves one of them to the front, for the last large one may be a bye, but behind one
// that is under way: its chunks stay together.
func (m *Module) moveToLarge(ep *Endpoint, f *Fragment) {
	if f.hasSeg {
		m.unfill(f)
	}
	ep.small.queue.remove(f)
	f.large = true
	first := ep.large.queue.first
	if first == nil || first.cursor == 0 {
		ep.large.queue.pushFront(f)
		return
	}
	ep.large.queue.remove(first)
	ep.large.queue.pushFront(f)
	ep.large.queue.pushFront(first)
}

// failTooLarge ends the fragments of a queue that are too large for the peer.
func (m *Module) failTooLarge(ep *Endpoint, q *fragmentList) {
	var before *Fragment // the last one that stays
	for f := q.first; f != nil; {
		next := f.next
		if f.size <= ep.fragBytesMax {
			before = f
		} else {
			if f.hasSeg {
				m.recovery.Unqueue(f.seg)
			}
			ep.moveFlush(f, before)
			m.unqueue(ep, f)
			m.complete(f, fmt.Errorf("%w: %d bytes, at most %d to this peer", ErrTooLarge, f.size,
				ep.fragBytesMax))
		}
		f = next
	}
}

// confirmByPacket decides about a packet with the tag of an endpoint that is not connected, or does
// not know that the peer is: the peer sends nothing but Hellos until it knows that all probes made
// the round trip. It returns the endpoint that the packet is for, nil to drop it.
func (m *Module) confirmByPacket(ep *Endpoint) *Endpoint {
	switch {
	case ep.state == stateLingering:
		return ep
	case !ep.hs.bound:
		return nil
	case ep.state == stateAccepting:
		if ep = m.validate(ep); ep == nil {
			return nil
		}
	}
	ep.hs.proven, ep.hs.confirmed = frag.ProvenAll, true
	m.establish(ep)
	return ep
}

// onReject ends a handshake that the peer refuses, which speaks the versions lo to hi. The tag in
// it is random, so it is an answer.
func (m *Module) onReject(h *frag.Header, lo, hi uint8) bool {
	ep := m.lookup(h.Conn)
	if ep == nil || ep.state != stateConnecting ||
		ep.hs.bound && m.nowUnpaused.Sub(ep.heardAt) < helloIntervalMax {
		return false // who has answered one Hello does not refuse the next, unless it died meanwhile
	}
	var err error
	switch h.Tag {
	case frag.RejectVersion:
		err = fmt.Errorf("%w: it speaks %d to %d, this side %d", ErrVersion, lo, hi, frag.Version)
	case frag.RejectStale:
		err = ErrStale
	default:
		err = fmt.Errorf("%w at the peer: its tables are full", ErrRefused)
	}
	m.end(ep, EventFailed, err)
	return true
}

// reject refuses a Hello. Its sender's address is inserted for a while: the oldest of a few such
// addresses leaves when another one comes. At most one is sent in a pass.
func (m *Module) reject(name []byte, tag uint64, reason, version uint8) {
	if m.rejectedIn == m.pass {
		return
	}
	m.rejectedIn = m.pass
	if to, err := m.insertForReject(name); err == nil {
		m.sendReject(to, tag, reason, version)
	}
}

// sendProbes sends the Hellos that are still missing, or a small one to be confirmed.
func (m *Module) sendProbes(ep *Endpoint) {
	if ep.hs.proven == frag.ProvenAll {
		m.sendHello(ep, frag.KindHello, frag.ProbeCommand, ep.peer.tag, frag.HelloBytes)
		return
	}
	for p := range frag.Probe(frag.ProbeCount) {
		if ep.hs.proven&p.Bit() != 0 {
			continue
		}
		size := frag.HelloBytes
		if p&frag.ProbeFull != 0 {
			if size = ep.tiny; p&frag.ProbeData != 0 {
				size = ep.mtu
			}
		}
		m.sendHello(ep, frag.KindHello, p, ep.peer.tag, size)
	}
}

func floorPowerOf2(n int) int {
	p := 1
	for 2*p <= n {
		p *= 2
	}
	return p
}
