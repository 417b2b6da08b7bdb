package peer

import (
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/sched"
)

// An endpoint's fragments wait in two flows (queues) until they are sent. The small flow is the
// queue of fragments that fit into one packet. An open Pack (a packet to which small messages can
// still be added) belongs to the small flow. The large flow is the queue of fragments that need
// several packets (chunks). The send queues (flows) of all endpoints take turns by deficit round
// robin (Shreedhar and Varghese 1995). A send queue waits for its turn at most until each queue
// ahead of it has sent one quantum of bytes. If a packet exceeds the rest of a queue's quantum, it
// is sent nevertheless, and the excess is subtracted from the queue's next quantum.
//
// A send queue that becomes active before its last quantum is used up is served first, like the new
// flows of FQ-CoDel (RFC 8290). After a send queue was served first, it gets its next quantum only
// after every active queue has got one. A send queue that is served first has a lower latency, but
// not a higher bandwidth.
//
// The two send queues of an endpoint share its send window. A small fragment is sent without
// waiting for the turn of its queue if it can be sent immediately. While both queues of an endpoint
// have fragments to send, the numbers of bytes sent from the two queues differ by at most one
// quantum.

// flow is one of the two send queues of an endpoint, for small or for large fragments.
type flow struct {
	sched.Flow[*Endpoint]              // its place in the order of all flows
	queue                 fragmentList // the to-send list
}

// largeFlow is the send queue for large fragments, with the state that only large fragments need.
type largeFlow struct {
	flow
	balance sched.Balance // difference between the bytes sent from the two flows
	fragIDs numbers.Fragments
}

// noLarge is the largeFlow of endpoints that have queued no large fragment. It is never changed.
var noLarge largeFlow

// The type "sending" contains an endpoint's send queues, and the counts of the endpoint's send
// buffers and descriptors.
type sending struct {
	small       flow       // fragments of one packet that wait to be sent
	large       *largeFlow // larger fragments that wait to be sent; see needLarge
	pack        openPack
	sentIn      uint64 // Clock.Epoch in which the latest packet was sealed
	buffers     int32  // number of this endpoint's send buffers that are not free
	descriptors int32  // fragments that the application fills, or whose end it does not know yet
}

// needLarge returns the send queue of ep for large fragments. Its first call allocates the queue.
func (ep *Endpoint) needLarge() *largeFlow {
	if ep.large == &noLarge {
		ep.large = new(largeFlow)
		ep.large.Init(ep, 0)
		ep.large.balance.Init(ep.All.Sender.quantum())
		ep.large.fragIDs.Init(uint32(ep.All.Config.Random() >> 32))
	}
	return ep.large
}

// flowAt returns the send queue (flow) of an endpoint to which the scheduler's entry f belongs.
func (s *sending) flowAt(f *sched.Flow[*Endpoint]) *flow {
	if f == &s.small.Flow {
		return &s.small
	}
	return &s.large.flow
}

// quantum returns the number of bytes that a send queue is allowed to send in one turn.
func (tx Sender) quantum() int {
	return max(tx.Config.Limits.QuantumBytes, tx.Port.Data.MTUBytes)
}

// flowOf returns the flow (send queue) that contains a queued fragment. A Bye is the last fragment
// in the queue of large fragments, and is sent when it is the only queued fragment.
func (s *sending) flowOf(f *Fragment) *flow {
	if f.large {
		return &s.large.flow
	}
	return &s.small
}

func (s *sending) waiting() bool {
	return s.small.queue.first != nil || s.large.queue.first != nil || s.pack.Open()
}

// bulk reports whether an endpoint has a queued large fragment that waits only for room in the send
// window or in the channel.
func (ep *Endpoint) bulk() bool {
	f := ep.large.queue.first
	return f != nil && !f.isBye() && !ep.Flushes.Behind(f.fence) && !ep.lacksMemory(f) &&
		!ep.pauses(f) && !ep.holds(f) && !f.placeless()
}

// lacksMemory reports whether a large fragment waits because the peer has refused a chunk of this
// endpoint for lack of memory. Puts and answers to gets do not wait for memory, because they need
// no reassembly memory of the peer.
func (ep *Endpoint) lacksMemory(f *Fragment) bool {
	return ep.Snd.NeedsMemory() && !f.put && !f.answer && !f.isBye()
}

// The method "overtakes" reports whether a small fragment may be sent, or added to the open Pack (a
// packet of several fragments), without being queued. A new small fragment must be queued if queued
// small fragments must be sent before it, or if a fence is pending. A new small fragment must also
// be queued if small fragments have used more than their share of the send window. For a fragment
// that is not urgent, the argument f of the method "overtakes" can be nil.
func (ep *Endpoint) overtakes(f *Fragment) bool {
	first := ep.small.queue.first
	return (first == nil || f != nil && f.urgent && !first.urgent) && !ep.Flushes.Fenced() &&
		(ep.large.queue.first == nil || ep.large.balance.MaySmall() || !ep.bulk())
}

// If the limits for urgent fragments allow it, the method "hurry" makes a message that fits into
// one packet urgent, so that it is sent before the endpoint's queued fragments.
func (f *Fragment) hurry() {
	ep := f.Ep
	if f.Op != nil || f.put || f.packetBytes() > ep.MTU() || ep.Flushes.Fenced() {
		return
	}
	c, _ := ep.way(f.packetBytes())
	if ep.urgent.Take(c.Posted+len(c.Batch), c.Caps.TxDepth) {
		f.urgent, f.signal = true, true
	}
}

// sentSmall records in largeFlow.balance that sizeBytes of small fragments were sent, so that large
// fragments get an equal part of the send window. sentSmall does nothing if the endpoint has no
// large fragment that could be sent at present.
func (ep *Endpoint) sentSmall(sizeBytes int) {
	if ep.bulk() {
		ep.large.balance.SentSmall(sizeBytes)
	}
}

// sentLarge records in largeFlow.balance that sizeBytes of large fragments were sent.
func (ep *Endpoint) sentLarge(sizeBytes int) {
	ep.large.balance.SentLarge(sizeBytes)
	if first := ep.small.queue.first; first == nil || ep.Flushes.Behind(first.fence) {
		ep.large.balance.Limit(ep.All.Sender.quantum())
	}
}

// The method "overtook" records in largeFlow.balance that sizeBytes of small fragments were sent
// before the turn of their send queue.
func (s *Scheduler) overtook(ep *Endpoint, sizeBytes int) {
	ep.sentSmall(sizeBytes)
	s.Rearm(ep)
}

// spareMax is the maximum number of packets in the send window that are reserved for small
// fragments, and equally the maximum number of send buffers that are reserved for them.
const spareMax = 8

// BulkRoom returns the number of packets of large fragments that the send window allows at present.
func (ep *Endpoint) BulkRoom() int {
	const share = 16
	room := ep.Snd.RoomOf(ep.MTU())
	return room - min(spareMax, (ep.Snd.InFlight()+room)/share)
}

// bulkBytes returns how many bytes of large fragments may be sent until it is the turn of the
// endpoint's small fragments.
func (ep *Endpoint) bulkBytes() int {
	if first := ep.small.queue.first; first == nil || ep.Flushes.Behind(first.fence) {
		return passBytes
	}
	return ep.large.balance.LargeBytes(ep.All.Sender.quantum())
}

// The method "may" reports whether a send queue has a fragment to send, and whether the send window
// allows a packet.
func (f *flow) may() bool {
	ep := f.Owner
	if ep == nil || ep.ID.State != StateConnected {
		return false
	}
	if f != &ep.small {
		if first := f.queue.first; first != nil && first.isBye() {
			return ep.small.queue.first == nil && !ep.pack.Open() && ep.Snd.Open() &&
				ep.mayClose() && !ep.Flushes.Behind(first.fence)
		}
		return ep.bulk() && ep.BulkRoom() > 0 && ep.bulkBytes() > 0
	}
	return ep.pack.Open() ||
		f.queue.first != nil && ep.Snd.Open() && !ep.Flushes.Behind(f.queue.first.fence) &&
			(ep.large.balance.MaySmall() || !ep.bulk())
}

// passBytes is the maximum number of bytes that one call of Progress sends. The limit on the bytes
// sent in one call of Progress ensures that the next poll of the channels follows soon.
const passBytes = 256 << 10

// Serve sends from the send queues in turn, until limits.PassPackets packets or passBytes bytes
// were sent. If Serve stops during the turn of a send queue, this turn continues in the next call
// of Serve. A send queue whose send window is full leaves the list of active queues until an ACK
// opens the window.
func (tx Sender) Serve() {
	budget, bytes := tx.Config.Limits.PassPackets, passBytes
	batched := len(tx.Port.Command.Batch) + len(tx.Port.Data.Batch) // in use until Progress returns
	for stuck := 0; budget > 0 && bytes > 0 && stuck < tx.Sched.Waiting(); {
		turn := tx.Sched.Next()
		ep := turn.Owner
		f := ep.flowAt(turn)
		f.BeginTurn(tx.quantum())
		sent, n := tx.serveFlow(f, bytes, budget)
		budget -= n
		bytes -= sent
		stuck++
		if n > 0 {
			stuck = 0
		}
		if n == 0 || f.Deficit <= 0 || !f.may() {
			tx.Sched.EndTurn(&f.Flow, f.may())
		}
		tx.Sched.Rearm(ep)
	}
	nothing := budget == tx.Config.Limits.PassPackets &&
		(batched == 0 || tx.Port.Paused(tx.Clock.Now))
	tx.Sched.SetBlocked(nothing && tx.Sched.Waiting() > 0)
}

// serveFlow sends packets in the turn of a send queue, at most "bytes" bytes and "budget" packets.
// serveFlow returns the numbers of sent bytes and packets. If no buffer is free or the channel is
// full, serveFlow stops before it has sent "budget" packets.
func (tx Sender) serveFlow(f *flow, bytes, budget int) (sent, packets int) {
	ep := f.Owner
	for f.Deficit > 0 && sent < bytes && packets < budget && f.may() {
		size, n := 0, 1
		switch {
		case f == &ep.small:
			size = tx.sendSmall(ep)
			ep.sentSmall(size)
		case ep.pack.Open(): // the next sequence number is reserved for the Pack
			size = tx.Packs.sealPack(ep)
			ep.sentSmall(size)
		case f.queue.first.isBye():
			size = tx.sendFrag(ep, f.queue.first)
		case tx.Packs.mixes(ep, f.queue.first):
			size = tx.Packs.sendMixed(ep)
			ep.sentLarge(size)
		case f.queue.first.cursor == 0 && f.queue.first.packetBytes() <= ep.MTU(): // the MTU has grown
			size = tx.sendFrag(ep, f.queue.first)
			ep.sentLarge(size)
		case f.queue.first.noticeDue():
			size = tx.sendNotice(ep, f.queue.first)
			ep.sentLarge(size)
		default:
			size, n = tx.sendChunks(ep, f.queue.first, min(f.Deficit, bytes-sent, ep.bulkBytes()),
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
	if f.queue.first != nil && ep.BulkRoom() <= 0 {
		ep.Snd.NoteBlocked()
	}
	return sent, packets
}
