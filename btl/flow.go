package btl

import (
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/sched"
)

// An endpoint's fragments wait in two flows (queues) until they are sent. The small flow
// has the fragments that fit into one packet, and the open Pack, which is the packet to
// which small messages are still added. The large flow has the fragments that do not fit
// into one packet, which are split into chunks. All flows of all endpoints take turns by
// deficit round robin (Shreedhar and Varghese 1995). Large fragments and busy endpoints
// delay other flows by at most a quantum of bytes for each flow. The packet that exceeds
// the deficit is still sent and the excess is charged to the next turn, so the packet's
// size need not be known in advance.
//
// A flow that gets new fragments before its last quantum is used up is served before the
// other flows (the new flows of FQ-CoDel, RFC 8290). A flow that was served early gets its
// next quantum behind all other flows, so it gains latency but no bandwidth.
//
// The two flows of an endpoint share its send window, and a small fragment that is sent at
// once does not wait for a turn. Each endpoint has a balance of the bytes of its two flows
// while both have something to send, and neither flow may be ahead by more than a quantum.

// flow is one of the two send queues of an endpoint, for small or for large fragments.
type flow struct {
	sched.Flow[*Endpoint]              // its place in the order of all flows
	queue                 fragmentList // the to-send list
}

// sending holds an endpoint's send queues, and counts the endpoint's send buffers and
// descriptors.
type sending struct {
	small   flow          // fragments of one packet that wait to be sent
	large   flow          // larger fragments that wait to be sent
	balance sched.Balance // of small and large
	pack    openPack
	sentIn  uint64 // the module's Clock.Epoch in which something was sealed last
	fragIDs numbers.Fragments
	buffers int // send buffers lent, queued or in flight
	// descriptors counts the endpoint's fragments that are lent, in progress, or ended but not
	// reported.
	descriptors int
	urgent      sched.Urgent
	bursts      bool  // the latest Pack had several messages
	wants       wants // resources that a call has lacked
}

func (ep *Endpoint) initFlows() {
	quantum := ep.m.quantum()
	ep.small.Init(ep, quantum)
	ep.large.Init(ep, 0)
	ep.balance.Init(quantum)
}

// flowAt returns the flow of an endpoint that has the place f in the order of all flows.
func (s *sending) flowAt(f *sched.Flow[*Endpoint]) *flow {
	if f == &s.small.Flow {
		return &s.small
	}
	return &s.large
}

// quantum is the number of bytes that a flow may send in a turn.
func (m *Module) quantum() int { return max(m.cfg.limits.QuantumBytes, m.port.Data.MTUBytes()) }

// flowOf returns the flow that holds a queued fragment. A Bye is the last fragment in the large
// flow, and is sent when no other fragment waits.
func (s *sending) flowOf(f *Fragment) *flow {
	if f.large {
		return &s.large
	}
	return &s.small
}

func (r *route) fitsPacket(f *Fragment) bool {
	return f.packetBytes() <= r.mtu
}

func (s *sending) waiting() bool {
	return s.small.queue.first != nil || s.large.queue.first != nil || s.pack.Open()
}

// bulk reports whether a large fragment is queued that waits only for room to send.
func (ep *Endpoint) bulk() bool {
	f := ep.large.queue.first
	return f != nil && !f.isBye() && !ep.behindFence(f) && !ep.lacksMemory(f) &&
		!ep.pauses(f) && !ep.holds(f) && !f.placeless()
}

// lacksMemory reports whether a large fragment waits because the peer has refused an earlier chunk
// for lack of memory. Puts and answers to gets do not wait, because they need no reassembly memory
// of the peer.
func (ep *Endpoint) lacksMemory(f *Fragment) bool {
	return ep.snd.NeedsMemory() && !f.put && !f.answer && !f.isBye()
}

// overtakes reports whether a small fragment may be sent at once, or added to the open Pack: no
// small fragment must precede it, no fence is pending, and the small flow is not ahead of the large
// flow. The argument f is nil for a fragment that is not urgent.
func (ep *Endpoint) overtakes(f *Fragment) bool {
	first := ep.small.queue.first
	return (first == nil || f != nil && f.urgent && !first.urgent) && !ep.flushes.Fenced() &&
		(ep.large.queue.first == nil || ep.balance.MaySmall() || !ep.bulk())
}

// hurry lets a message of one packet go ahead of the endpoint's queued fragments, if the bounds of
// urgent fragments allow that.
func (f *Fragment) hurry() {
	ep := f.ep
	if f.op != nil || f.put || !ep.fitsPacket(f) || ep.flushes.Fenced() {
		return
	}
	c, _ := ep.way(f.packetBytes())
	if ep.urgent.Take(c.Posted()+c.Batched(), c.Caps().TxDepth) {
		f.urgent, f.Signal = true, true
	}
}

// sentSmall subtracts sizeBytes of small fragments from the balance of the endpoint's two flows,
// if a large fragment could have been sent.
func (ep *Endpoint) sentSmall(sizeBytes int) {
	if ep.bulk() {
		ep.balance.SentSmall(sizeBytes)
	}
}

// sentLarge adds sizeBytes of large fragments to the balance of the endpoint's two flows.
func (ep *Endpoint) sentLarge(sizeBytes int) {
	ep.balance.SentLarge(sizeBytes)
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		ep.balance.Limit(ep.m.quantum())
	}
}

// beginBulk resets the balance of the endpoint's two flows if the small flow was ahead of earlier
// large fragments.
func (s *sending) beginBulk() { s.balance.BeginLarge() }

// overtook subtracts sizeBytes, which the small flow has sent out of turn, from the balance of
// the endpoint's two flows.
func (s *scheduler) overtook(ep *Endpoint, sizeBytes int) {
	ep.sentSmall(sizeBytes)
	s.rearm(ep)
}

// spareMax is the maximum number of packets of the send window, and of send buffers, that large
// fragments leave to small fragments.
const spareMax = 8

// bulkRoom is the number of packets of large fragments that the send window allows now.
func (ep *Endpoint) bulkRoom() int {
	const share = 16
	room := ep.snd.RoomOf(ep.mtu)
	return room - min(spareMax, (ep.snd.InFlight()+room)/share)
}

// bulkBytes is the number of bytes of large fragments that may be sent before the queued small
// fragments.
func (ep *Endpoint) bulkBytes() int {
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		return passBytes
	}
	return ep.balance.LargeBytes(ep.m.quantum())
}

// may reports whether the flow has something to send and the send window allows a packet.
func (f *flow) may() bool {
	ep := f.Owner()
	if ep.id.State() != stateConnected {
		return false
	}
	if f == &ep.large {
		if first := f.queue.first; first != nil && first.isBye() {
			return ep.small.queue.first == nil && !ep.pack.Open() && ep.snd.Open() &&
				ep.mayClose() && !ep.behindFence(first)
		}
		return ep.bulk() && ep.bulkRoom() > 0 && ep.bulkBytes() > 0
	}
	return ep.pack.Open() ||
		f.queue.first != nil && ep.snd.Open() && !ep.behindFence(f.queue.first) &&
			(ep.balance.MaySmall() || !ep.bulk())
}

// passBytes is the maximum number of bytes that one call of Progress sends, so that the next poll
// of the channels follows soon.
const passBytes = 256 << 10

// serve sends from the flows in turn, up to limits.PassPackets packets or passBytes bytes in total.
// If serve stops within the turn of a flow, the turn continues in the next call of serve. A flow
// whose send window is full leaves the list of active flows until an ACK opens the window.
func (m *Module) serve() {
	budget, bytes := m.cfg.limits.PassPackets, passBytes
	batched := m.port.Command.Batched() + m.port.Data.Batched() // used until Progress returns
	for stuck := 0; budget > 0 && bytes > 0 && stuck < m.sched.Waiting(); {
		turn := m.sched.Next()
		ep := turn.Owner()
		f := ep.flowAt(turn)
		f.BeginTurn(m.quantum())
		sent, n := m.serveFlow(f, bytes, budget)
		budget -= n
		bytes -= sent
		stuck++
		if n > 0 {
			stuck = 0
		}
		if n == 0 || f.Deficit() <= 0 || !f.may() {
			m.sched.endTurn(f)
		}
		m.sched.rearm(ep)
	}
	m.sched.SetBlocked(m.sched.Waiting() > 0 && budget == m.cfg.limits.PassPackets && batched == 0)
}

// serveFlow sends packets in a flow's turn, limited by the arguments bytes and budget (in
// packets). The results of serveFlow are the numbers of sent bytes and packets, which are
// below the limits if no buffer is free or the channel is full.
func (m *Module) serveFlow(f *flow, bytes, budget int) (sent, packets int) {
	ep := f.Owner()
	for f.Deficit() > 0 && sent < bytes && packets < budget && f.may() {
		size, n := 0, 1
		switch {
		case f == &ep.small:
			size = m.sendSmall(ep)
			ep.sentSmall(size)
		case ep.pack.Open(): // the next sequence number is reserved for the Pack
			size = m.sealPack(ep)
			ep.sentSmall(size)
		case f.queue.first.isBye():
			size = m.sendFrag(ep, f.queue.first)
		case ep.mixes(f.queue.first):
			size = m.sendMixed(ep)
			ep.sentLarge(size)
		case f.queue.first.cursor == 0 && ep.fitsPacket(f.queue.first): // the MTU has grown
			size = m.sendFrag(ep, f.queue.first)
			ep.sentLarge(size)
		case f.queue.first.noticeDue():
			size = m.sendNotice(ep, f.queue.first)
			ep.sentLarge(size)
		default:
			size, n = m.sendChunks(ep, f.queue.first, min(f.Deficit(), bytes-sent, ep.bulkBytes()),
				budget-packets)
			ep.sentLarge(size)
		}
		if size == 0 {
			break
		}
		f.Charge(size)
		sent += size
		packets += n
	}
	if f.queue.first != nil && ep.bulkRoom() <= 0 {
		ep.snd.NoteBlocked()
	}
	return sent, packets
}
