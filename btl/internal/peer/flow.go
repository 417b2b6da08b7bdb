package peer

import (
	"gobtl/btl/internal/numbers"
	"gobtl/btl/internal/sched"
)

// An endpoint's fragments wait in two flows (queues) until they are sent. The small flow
// has the fragments that fit into one packet, and the open Pack, which is the packet to
// which small messages are still added. The large flow has the fragments that do not fit
// into one packet, which are split into chunks. All flows of all endpoints take turns by
// deficit round robin (Shreedhar and Varghese 1995). Large fragments and busy endpoints
// delay other flows by at most a quantum of bytes for each flow. A packet that exceeds the deficit
// is still sent, and the excess is subtracted from the flow's next turn, so the packet's size need
// not be known in advance.
//
// A flow that gets new fragments before its last quantum is used up is served before the
// other flows (the new flows of FQ-CoDel, RFC 8290). A flow that was served early gets its next
// quantum behind all other flows, so its latency is lower, but its bandwidth is not higher.
//
// The two flows of an endpoint share its send window, and a small fragment that is sent at
// once does not wait for a turn. While both flows have something to send, each endpoint counts the
// difference between the bytes that the two flows have sent, which may be at most a quantum.

// flow is one of the two send queues of an endpoint, for small or for large fragments.
type flow struct {
	sched.Flow[*Endpoint]              // its place in the order of all flows
	Queue                 FragmentList // the to-send list
}

// sending holds an endpoint's send queues, and counts the endpoint's send buffers and
// descriptors.
type sending struct {
	Small   flow          // fragments of one packet that wait to be sent
	Large   flow          // larger fragments that wait to be sent
	balance sched.Balance // bytes sent, small against large
	Pack    OpenPack
	sentIn  uint64 // the module's Clock.Epoch in which something was sealed last
	FragIDs numbers.Fragments
	Buffers int32 // send buffers lent, queued or in flight
	// descriptors counts the endpoint's fragments that are lent, in progress, or ended but not
	// reported.
	Descriptors int32
	Urgent      sched.Urgent
	bursts      bool  // the latest Pack had several messages
	wants       wants // resources that a call has lacked
}

func (ep *Endpoint) initFlows() {
	quantum := ep.all.Sender.quantum()
	ep.Small.Init(ep, quantum)
	ep.Large.Init(ep, 0)
	ep.balance.Init(quantum)
}

// flowAt returns the flow of an endpoint that has the place f in the order of all flows.
func (s *sending) flowAt(f *sched.Flow[*Endpoint]) *flow {
	if f == &s.Small.Flow {
		return &s.Small
	}
	return &s.Large
}

// quantum is the number of bytes that a flow may send in a turn.
func (tx *Sender) quantum() int {
	return max(tx.Config.Limits.QuantumBytes, tx.Port.Data.MTUBytes())
}

// flowOf returns the flow that holds a queued fragment. A Bye is the last fragment in the large
// flow, and is sent when no other fragment waits.
func (s *sending) flowOf(f *Fragment) *flow {
	if f.large {
		return &s.Large
	}
	return &s.Small
}

func (r *route) fitsPacket(f *Fragment) bool {
	return f.packetBytes() <= r.MTU
}

func (s *sending) Waiting() bool {
	return s.Small.Queue.First != nil || s.Large.Queue.First != nil || s.Pack.Open()
}

// bulk reports whether a queued large fragment waits only for room in the send window or in the
// channel.
func (ep *Endpoint) bulk() bool {
	f := ep.Large.Queue.First
	return f != nil && !f.IsBye() && !ep.behindFence(f) && !ep.lacksMemory(f) &&
		!ep.pauses(f) && !ep.holds(f) && !f.placeless()
}

// lacksMemory reports whether a large fragment waits because the peer has refused an earlier chunk
// for lack of memory. Puts and answers to gets do not wait, because they need no reassembly memory
// of the peer.
func (ep *Endpoint) lacksMemory(f *Fragment) bool {
	return ep.Snd.NeedsMemory() && !f.put && !f.Answer && !f.IsBye()
}

// overtakes reports whether a small fragment may be sent without being queued, or be added to the
// open Pack. This is allowed if no small fragment must be sent before it, if no fence is pending,
// and if the small flow is not ahead of the large flow. The argument f is nil for a fragment that
// is not urgent.
func (ep *Endpoint) overtakes(f *Fragment) bool {
	first := ep.Small.Queue.First
	return (first == nil || f != nil && f.urgent && !first.urgent) && !ep.Flushes.Fenced() &&
		(ep.Large.Queue.First == nil || ep.balance.MaySmall() || !ep.bulk())
}

// hurry puts a message of one packet ahead of the endpoint's queued fragments, if the limits for
// urgent fragments allow that.
func (f *Fragment) hurry() {
	ep := f.Ep
	if f.Op != nil || f.put || !ep.fitsPacket(f) || ep.Flushes.Fenced() {
		return
	}
	c, _ := ep.way(f.packetBytes())
	if ep.Urgent.Take(c.Posted()+c.Batched(), c.Caps().TxDepth) {
		f.urgent, f.signal = true, true
	}
}

// sentSmall records in Endpoint.balance that the small flow has sent sizeBytes, so that the large
// flow gets an equal part of the send window. If no large fragment could have been sent, sentSmall
// changes nothing.
func (ep *Endpoint) sentSmall(sizeBytes int) {
	if ep.bulk() {
		ep.balance.SentSmall(sizeBytes)
	}
}

// sentLarge records in Endpoint.balance that the large flow has sent sizeBytes.
func (ep *Endpoint) sentLarge(sizeBytes int) {
	ep.balance.SentLarge(sizeBytes)
	if first := ep.Small.Queue.First; first == nil || ep.behindFence(first) {
		ep.balance.Limit(ep.all.Sender.quantum())
	}
}

// beginBulk clears the lead of the small flow over earlier large fragments, so that it does not
// count against the small flow any more.
func (s *sending) beginBulk() { s.balance.BeginLarge() }

// overtook records in Endpoint.balance that the small flow has sent sizeBytes out of turn.
func (s *Scheduler) overtook(ep *Endpoint, sizeBytes int) {
	ep.sentSmall(sizeBytes)
	s.Rearm(ep)
}

// spareMax is the maximum number of packets of the send window, and of send buffers, that large
// fragments leave to small fragments.
const spareMax = 8

// BulkRoom is the number of packets of large fragments that the send window allows now.
func (ep *Endpoint) BulkRoom() int {
	const share = 16
	room := ep.Snd.RoomOf(ep.MTU)
	return room - min(spareMax, (ep.Snd.InFlight()+room)/share)
}

// bulkBytes is the number of bytes of large fragments that may be sent before the queued small
// fragments.
func (ep *Endpoint) bulkBytes() int {
	if first := ep.Small.Queue.First; first == nil || ep.behindFence(first) {
		return passBytes
	}
	return ep.balance.LargeBytes(ep.all.Sender.quantum())
}

// may reports whether the flow has something to send and the send window allows a packet.
func (f *flow) may() bool {
	ep := f.Owner()
	if ep.ID.State() != StateConnected {
		return false
	}
	if f == &ep.Large {
		if first := f.Queue.First; first != nil && first.IsBye() {
			return ep.Small.Queue.First == nil && !ep.Pack.Open() && ep.Snd.Open() &&
				ep.mayClose() && !ep.behindFence(first)
		}
		return ep.bulk() && ep.BulkRoom() > 0 && ep.bulkBytes() > 0
	}
	return ep.Pack.Open() ||
		f.Queue.First != nil && ep.Snd.Open() && !ep.behindFence(f.Queue.First) &&
			(ep.balance.MaySmall() || !ep.bulk())
}

// passBytes is the maximum number of bytes that one call of Progress sends, so that the next poll
// of the channels follows soon.
const passBytes = 256 << 10

// Serve sends from the flows in turn, up to limits.PassPackets packets or passBytes bytes in total.
// If serve stops within the turn of a flow, the turn continues in the next call of serve. A flow
// whose send window is full leaves the list of active flows until an ACK opens the window.
func (tx *Sender) Serve() {
	budget, bytes := tx.Config.Limits.PassPackets, passBytes
	batched := tx.Port.Command.Batched() + tx.Port.Data.Batched() // used until Progress returns
	for stuck := 0; budget > 0 && bytes > 0 && stuck < tx.Sched.Waiting(); {
		turn := tx.Sched.Next()
		ep := turn.Owner()
		f := ep.flowAt(turn)
		f.BeginTurn(tx.quantum())
		sent, n := tx.serveFlow(f, bytes, budget)
		budget -= n
		bytes -= sent
		stuck++
		if n > 0 {
			stuck = 0
		}
		if n == 0 || f.Deficit() <= 0 || !f.may() {
			tx.Sched.endTurn(f)
		}
		tx.Sched.Rearm(ep)
	}
	nothing := budget == tx.Config.Limits.PassPackets && batched == 0
	tx.Sched.SetBlocked(nothing && tx.Sched.Waiting() > 0)
}

// serveFlow sends packets in a flow's turn, limited by the arguments bytes and budget (in
// packets). The results of serveFlow are the numbers of sent bytes and packets, which are
// below the limits if no buffer is free or the channel is full.
func (tx *Sender) serveFlow(f *flow, bytes, budget int) (sent, packets int) {
	ep := f.Owner()
	for f.Deficit() > 0 && sent < bytes && packets < budget && f.may() {
		size, n := 0, 1
		switch {
		case f == &ep.Small:
			size = tx.sendSmall(ep)
			ep.sentSmall(size)
		case ep.Pack.Open(): // the next sequence number is reserved for the Pack
			size = tx.Packs.sealPack(ep)
			ep.sentSmall(size)
		case f.Queue.First.IsBye():
			size = tx.sendFrag(ep, f.Queue.First)
		case tx.Packs.mixes(ep, f.Queue.First):
			size = tx.Packs.sendMixed(ep)
			ep.sentLarge(size)
		case f.Queue.First.cursor == 0 && ep.fitsPacket(f.Queue.First): // the MTU has grown
			size = tx.sendFrag(ep, f.Queue.First)
			ep.sentLarge(size)
		case f.Queue.First.noticeDue():
			size = tx.sendNotice(ep, f.Queue.First)
			ep.sentLarge(size)
		default:
			size, n = tx.sendChunks(ep, f.Queue.First, min(f.Deficit(), bytes-sent, ep.bulkBytes()),
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
	if f.Queue.First != nil && ep.BulkRoom() <= 0 {
		ep.Snd.NoteBlocked()
	}
	return sent, packets
}
