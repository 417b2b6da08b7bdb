package btl

// What an endpoint has to send waits in two flows: the fragments that fit a packet, with the open
// pack, and the larger ones, which are cut into chunks. All flows of all endpoints take turns by
// deficit round robin (Shreedhar and Varghese 1995), so that neither a large fragment nor a busy
// endpoint holds up anything else for more than a quantum of bytes. The packet that exceeds the
// deficit is still sent, and the excess taken from the next turn: so nothing has to be known of a
// packet before it is made.
//
// A flow that has something to send after a pause, and has not used up its quantum when it fell
// silent, does not wait for the others' turns (the new flows of FQ-CoDel, RFC 8290). It gets a new
// quantum only in its place behind all others, so it gains time by that, but not a byte.
//
// The two flows of an endpoint share its window besides, which mostly is what bounds them, and a
// small fragment that leaves at once waits for no turn. So there is a balance of what the two have
// sent while both had to: neither may be ahead of the other by more than a quantum.

// flow is one of the two of an endpoint.
type flow struct {
	ep         *Endpoint
	queue      fragmentList // the to-send list
	list       *flowList    // that it stands on: nil if it has nothing to send, or may not
	prev, next *flow
	deficit    int // bytes to send until the others' turns
}

// sending is what an endpoint has to send, and holds for it.
type sending struct {
	small   flow // fragments of one packet that wait to be sent
	large   flow // and the others
	balance int  // bytes that the small ones may be ahead of the others
	pack    openPack
	sentIn  uint64 // the module's sendEpoch in which something was sealed last
	fragIDs fragIDs
	buffers int // send buffers lent, queued or in flight
	// descriptors are the fragments that are lent, under way, or ended and not told yet.
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

// quantum is what a flow may send in a turn: not less than a packet, for else a turn might only
// pay for what the last one exceeded.
func (m *Module) quantum() int { return max(m.cfg.QuantumBytes, m.port.Data.MTUBytes()) }

// flowOf is the flow that a queued fragment stands in. A bye is the last of the large ones: it is
// sent when nothing else waits.
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

// bulk says whether a large fragment that need not wait for the peer is there. For what it sends
// small ones wait; one that may not go for other reasons than room does not hold them up.
func (ep *Endpoint) bulk() bool {
	f := ep.large.queue.first
	return f != nil && !f.isBye() && !ep.behindFence(f) && !ep.lacksMemory(f) &&
		!ep.pauses(f) && !ep.holds(f) && !f.placeless()
}

// lacksMemory says whether a large fragment is kept because the peer had no memory for what was
// sent before it, or of it: what is written into a region needs none.
func (ep *Endpoint) lacksMemory(f *Fragment) bool {
	return ep.snd.NeedsMemory() && !f.put && !f.answer && !f.isBye()
}

// overtakes says whether a small fragment may leave at once, or into the open pack: if none waits,
// and if they are not ahead of a large one.
func (ep *Endpoint) overtakes() bool {
	return ep.small.queue.first == nil && !ep.fenced() &&
		(ep.large.queue.first == nil || ep.balance > 0 || !ep.bulk())
}

// sentSmall puts bytes of small fragments into the balance.
func (ep *Endpoint) sentSmall(sizeBytes int) {
	if ep.bulk() {
		ep.balance -= sizeBytes
	}
}

// sentLarge puts bytes of large fragments into the balance. Small ones that did not wait meanwhile
// do not catch up with more than a quantum.
func (ep *Endpoint) sentLarge(sizeBytes int) {
	ep.balance += sizeBytes
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		ep.balance = min(ep.balance, ep.m.quantum())
	}
}

// beginBulk forgives what small fragments were ahead of large ones that are gone.
func (ep *Endpoint) beginBulk() { ep.balance = max(ep.balance, 0) }

// overtook books bytes that were sent of the small fragments out of turn.
func (m *Module) overtook(ep *Endpoint, sizeBytes int) {
	ep.sentSmall(sizeBytes)
	m.sched.rearm(ep)
}

// spareMax bounds what large fragments leave to small ones of everything that they share: the
// places of the window and the send buffers. They fill whatever there is, and a small one should
// not have to wait for an acknowledgement of theirs.
const spareMax = 8

// bulkRoom is the number of packets of large fragments that the window is open to.
func (ep *Endpoint) bulkRoom() int {
	const share = 16
	room := ep.snd.RoomOf(ep.mtu)
	return room - min(spareMax, (ep.snd.InFlight()+room)/share)
}

// bulkBytes is what may be sent of large fragments before small ones that wait.
func (ep *Endpoint) bulkBytes() int {
	if first := ep.small.queue.first; first == nil || ep.behindFence(first) {
		return passBytes
	}
	return ep.m.quantum() - ep.balance
}

// may says whether the flow has something to send, and its window is open.
func (f *flow) may() bool {
	ep := f.ep
	if ep.state != stateConnected {
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

// passBytes bounds what one pass sends, so that large packets do not keep it from receiving for
// long.
const passBytes = 256 << 10

// serve sends what waits in the flows, in turn, until PassPackets or passBytes are sent in all. A
// turn that the pass cuts short goes on in the next one. A flow whose window closes leaves its list
// until an ACK opens it.
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

// serveFlow is a flow's turn, or what the pass has left for it: bytes, and budget packets. It
// returns what was sent: less if there is no buffer, or no room in a channel.
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
