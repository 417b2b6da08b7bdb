package btl

// An endpoint's fragments to send wait in two flows: the fragments that fit a packet, with the open
// pack, and the larger ones, which are cut into chunks. All flows of all endpoints take turns by
// deficit round robin (Shreedhar and Varghese 1995), so that a large fragment, or a busy endpoint,
// delays others by at most a quantum of bytes. The packet that exceeds the deficit is still sent,
// and the excess is charged to the next turn: so a packet's size need not be known before the
// packet is built.
//
// A flow that becomes active again, with some of its last quantum left, does not wait for the
// others' turns (the new flows of FQ-CoDel, RFC 8290). It gets a new quantum only in its turn
// behind all others: so it gains latency, but no bandwidth.
//
// The two flows of an endpoint also share its window, which is mostly their bound, and a small
// fragment that leaves at once waits for no turn. So a balance compares the bytes of the two while
// both have something to send: neither may lead the other by more than a quantum.

// flow is one of the two flows of an endpoint: small or large fragments.
type flow struct {
	ep         *Endpoint
	queue      fragmentList // the to-send list
	list       *flowList    // that it stands on: nil if it has nothing to send, or may not
	prev, next *flow
	deficit    int // bytes to send until the others' turns
}

// sending is an endpoint's queues of fragments to send, and the resources that it holds for them.
type sending struct {
	small   flow // fragments of one packet that wait to be sent
	large   flow // and the others
	balance int  // bytes that the small ones may be ahead of the others
	pack    openPack
	sentIn  uint64 // the module's sendEpoch in which something was sealed last
	fragIDs fragIDs
	buffers int // send buffers lent, queued or in flight
	// descriptors counts fragments: lent, under way, or ended but not reported.
	descriptors int
	bursts      bool  // the latest pack had several records: the next message will not be alone
	wants       wants // its owner has found no room for something
}

func (ep *Endpoint) initFlows() {
	quantum := ep.m.quantum()
	ep.small = flow{ep: ep, deficit: quantum}
	ep.large = flow{ep: ep}
	ep.balance = quantum
}

// quantum is the bytes that a flow may send in a turn: at least a packet, or a turn might only pay
// off the excess of the last one.
func (m *Module) quantum() int { return max(m.cfg.QuantumBytes, m.port.Data.MTUBytes()) }

// flowOf is the flow that holds a queued fragment. A Bye is last in the large flow: it is sent when
// nothing else waits.
func (ep *Endpoint) flowOf(f *Fragment) *flow {
	if f.large {
		return &ep.large
	}
	return &ep.small
}

// fitsPacket says whether a fragment is sent as one packet.
func (ep *Endpoint) fitsPacket(f *Fragment) bool {
	return f.packetBytes() <= ep.mtu
}

// waiting says whether the endpoint has something to send.
func (ep *Endpoint) waiting() bool {
	return ep.small.queue.first != nil || ep.large.queue.first != nil || ep.pack.open()
}

// bulk says whether a large fragment is queued that need not wait for the peer. Small fragments
// take turns with it; a large one that is blocked, but not for lack of room, does not delay them.
func (ep *Endpoint) bulk() bool {
	f := ep.large.queue.first
	return f != nil && !f.isBye() && !ep.behindFence(f) && !ep.lacksMemory(f) &&
		!ep.pauses(f) && !ep.holds(f) && !f.placeless()
}

// lacksMemory says whether a large fragment waits because the peer had no memory for it, or for one
// before it. Fragments written into a region need no such memory.
func (ep *Endpoint) lacksMemory(f *Fragment) bool {
	return ep.snd.NeedsMemory() && !f.put && !f.answer && !f.isBye()
}

// overtakes says whether a small fragment may leave at once, or into the open pack: if no small one
// is queued, and the small flow has no lead over the large one.
func (ep *Endpoint) overtakes() bool {
	return ep.small.queue.first == nil && !ep.flushes.Fenced() &&
		(ep.large.queue.first == nil || ep.balance > 0 || !ep.bulk())
}

// sentSmall adds bytes of small fragments to the balance.
func (ep *Endpoint) sentSmall(sizeBytes int) {
	if ep.bulk() {
		ep.balance -= sizeBytes
	}
}

// sentLarge adds bytes of large fragments to the balance. Small fragments that did not wait in that
// time may catch up by one quantum at most.
func (ep *Endpoint) sentLarge(sizeBytes int) {
	ep.balance += sizeBytes
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		ep.balance = min(ep.balance, ep.m.quantum())
	}
}

// beginBulk forgives the small flow its lead over large fragments that are gone.
func (ep *Endpoint) beginBulk() { ep.balance = max(ep.balance, 0) }

// overtook charges the small flow for bytes that it sent out of turn.
func (m *Module) overtook(ep *Endpoint, sizeBytes int) {
	ep.sentSmall(sizeBytes)
	m.sched.rearm(ep)
}

// spareMax bounds the window places and send buffers that large fragments leave to small ones.
// Large fragments would use all of them, and a small one should not wait for an ACK of a large one.
const spareMax = 8

// bulkRoom is the number of packets of large fragments that the window now admits.
func (ep *Endpoint) bulkRoom() int {
	const share = 16
	room := ep.snd.RoomOf(ep.mtu)
	return room - min(spareMax, (ep.snd.InFlight()+room)/share)
}

// bulkBytes is the bytes of large fragments that may be sent before the small ones that wait.
func (ep *Endpoint) bulkBytes() int {
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		return passBytes
	}
	return ep.m.quantum() - ep.balance
}

// may says whether the flow has something to send, and its window is open.
func (f *flow) may() bool {
	ep := f.ep
	if ep.id.State() != stateConnected {
		return false
	}
	if f == &ep.large {
		if first := f.queue.first; first != nil && first.isBye() {
			return ep.small.queue.first == nil && !ep.pack.open() && ep.snd.Open() &&
				ep.mayClose() && !ep.behindFence(first)
		}
		return ep.bulk() && ep.bulkRoom() > 0 && ep.bulkBytes() > 0
	}
	return ep.pack.open() ||
		f.queue.first != nil && ep.snd.Open() && !ep.behindFence(f.queue.first) &&
			(ep.balance > 0 || !ep.bulk())
}

// passBytes bounds the bytes that one pass sends, so that it soon receives again.
const passBytes = 256 << 10

// serve sends from the flows in turn, until PassPackets or passBytes are sent in all. A turn that
// the end of the pass cuts short continues in the next pass. A flow whose window closes leaves its
// list until an ACK opens it.
func (m *Module) serve() {
	budget, bytes := m.cfg.PassPackets, passBytes
	batched := m.port.Command.Batched() + m.port.Data.Batched() // takes room until the end of the pass
	for stuck := 0; budget > 0 && bytes > 0 && stuck < m.sched.waiting(); {
		f := m.sched.next()
		if f.deficit <= 0 {
			f.deficit += m.quantum()
		}
		sent, n := m.serveFlow(f, bytes, budget)
		budget -= n
		bytes -= sent
		stuck++
		if n > 0 {
			stuck = 0
		}
		if n == 0 || f.deficit <= 0 || !f.may() {
			m.sched.endTurn(f)
		}
		m.sched.rearm(f.ep)
	}
	m.sched.blocked = m.sched.waiting() > 0 && budget == m.cfg.PassPackets && batched == 0
}

// serveFlow sends in a flow's turn up to bytes, and budget packets, which is the rest of the pass's
// allowance. It returns the amounts sent: less than that without a buffer, or room in a channel.
func (m *Module) serveFlow(f *flow, bytes, budget int) (sent, packets int) {
	ep := f.ep
	for f.deficit > 0 && sent < bytes && packets < budget && f.may() {
		size, n := 0, 1
		switch {
		case f == &ep.small:
			size = m.sendSmall(ep)
			ep.sentSmall(size)
		case ep.pack.open(): // has been promised the next sequence number
			size = m.sealPack(ep)
			ep.sentSmall(size)
		case f.queue.first.isBye():
			size = m.sendFrag(ep, f.queue.first)
		case ep.mixes(f.queue.first):
			size = m.sendMixed(ep)
			ep.sentLarge(size)
		case f.queue.first.cursor == 0 && ep.fitsPacket(f.queue.first): // packets were smaller before
			size = m.sendFrag(ep, f.queue.first)
			ep.sentLarge(size)
		case f.queue.first.noticeDue():
			size = m.sendNotice(ep, f.queue.first)
			ep.sentLarge(size)
		default:
			size, n = m.sendChunks(ep, f.queue.first, min(f.deficit, bytes-sent, ep.bulkBytes()),
				budget-packets)
			ep.sentLarge(size)
		}
		if size == 0 {
			break
		}
		f.deficit -= size
		sent += size
		packets += n
	}
	if f.queue.first != nil && ep.bulkRoom() <= 0 {
		ep.snd.NoteBlocked()
	}
	return sent, packets
}
