package peer

import (
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Packs implements packets that several fragments share.
type Packs struct{ *Services }

// Small fragments that are sent in quick succession share a packet. A shared packet is called a
// Pack, and each fragment in it a record.
//
// The first small fragment of a burst is sent immediately in its own packet, because a single
// message must not wait for messages that might follow. Until the next call of Progress, all
// further small fragments to the same peer are copied to one send buffer, the open Pack. When a
// Pack is sealed, it gets its sequence number, acknowledgement and retransmission timer. A Pack is
// sealed and added to its channel's batch when one of the following events occurs:
//
//  - The Pack has no room for the next fragment.
//  - The next call of Progress begins.
//  - The Pack was opened during a call of Progress, and the scheduler serves its endpoint.
//  - The Pack is for a peer over a reliable fabric, and contains enough fragments (postEarly).
//
// The channel's batch is posted to the fabric by postEarly, or else by the next call of Progress.
//
// A burst of small messages costs one system call for the first message and one system call for all
// following messages. If the previous burst is still in flight, a burst needs only one system call,
// because its first message is added to the Pack like the rest. A message to an endpoint without
// packets in flight is always sent immediately.
//
// While a Pack is open, its endpoint stays in the scheduler's list. The endpoint's next sequence
// number is reserved for the open Pack, so that no packet of the endpoint is sealed before the
// Pack. A Pack is opened only while the send window allows a packet. An open Pack can be sent even
// if the bytes in flight reach their limit before it is sealed (see reliability.Sender.Admits).

// openPack is a shared packet (Pack) to which small fragments of an endpoint can still be added.
type openPack struct {
	last *Fragment         // last fragment with an OnDone; SendSegment.frag is the first
	seg  reliability.Token // the send buffer of the Pack
	pack.Pack
}

// The method "unbatched" reports whether the next message must be sent immediately, without waiting
// for messages that could share its packet, or packets that could share its batch. The next message
// is sent immediately if the endpoint has no burst of messages in flight, and has sent no packet in
// the present epoch (a call of Progress, or the time between two calls).
func (ep *Endpoint) unbatched() bool {
	return ep.sentIn != ep.All.Clock.Epoch && (!ep.bursts || !ep.busy())
}

// packBytesMax returns the maximum datagram size, in bytes, of a Pack to the peer of an endpoint.
func (pk Packs) packBytesMax(ep *Endpoint) int { return min(ep.MTU(), pk.Config.PackBytes) }

// fits reports whether a fragment of sizeBytes is small enough to share a packet.
func (pk Packs) fits(ep *Endpoint, sizeBytes int) bool {
	return 2*(sizeBytes+frag.RecordHeaderBytes) <= pk.packBytesMax(ep)-frag.FragHeaderBytes
}

// packable reports whether fragment f is allowed to share a packet. A fragment must not share a
// packet if it is urgent, belongs to the transport itself or to a memory operation, or consists of
// several memory blocks.
func (pk Packs) packable(ep *Endpoint, f *Fragment) bool {
	return !f.urgent && !f.put && f.Op == nil && !f.Data.Scattered() && f.tag <= frag.TagUserMax &&
		pk.fits(ep, int(f.size))
}

// packSend copies the packable fragment f to the endpoint's open Pack. packSend returns false if f
// cannot share a packet at present, for example because fragments are queued before f. After
// packSend has returned true, the caller still owns the descriptor of f unless f.signal is set.
func (pk Packs) packSend(ep *Endpoint, f *Fragment) bool {
	if !ep.overtakes(nil) || ep.ID.State != StateConnected {
		return false
	}
	if !pk.packRoom(ep, int(f.size)) || !ep.pack.Open() && !pk.openPack(ep, f) {
		return false
	}
	pk.addRecord(ep, f)
	if f.signal {
		pk.Buffers.chain(&ep.pack, f)
	}
	if f := &ep.small; !f.Listed() && f.may() {
		pk.Sched.Add(&f.Flow)
	}
	pk.recordAdded(ep)
	return true
}

// packData copies a message without a descriptor to the endpoint's open Pack (shared packet), and
// reports whether the message can share a packet at present.
func (pk Packs) packData(ep *Endpoint, tag uint8, data []byte) bool {
	if !ep.overtakes(nil) || ep.ID.State != StateConnected || !pk.fits(ep, len(data)) {
		return false
	}
	var t reliability.Token
	if !pk.packRoom(ep, len(data)) ||
		!ep.pack.Open() && (!ep.Snd.Open() || !pk.Buffers.takeSeg(ep, &t)) {
		return false
	}
	if p := &ep.pack; !p.Open() {
		pk.beginPack(ep, t, tag, len(data))
		copy(pk.Port.Arena.Bytes(fabric.Buf(t))[frag.FragHeaderBytes:], data)
	} else {
		p.Append(pk.Port.Arena.Bytes(fabric.Buf(p.seg)), tag, data)
	}
	if f := &ep.small; !f.Listed() && f.may() {
		pk.Sched.Add(&f.Flow)
	}
	pk.recordAdded(ep)
	return true
}

// Over a reliable fabric, the first shared packet (Pack) after a packet from the peer is posted as
// soon as it contains postFirst fragments, even if it is not full.
const postFirst = 16

// postEarly posts the open Pack of an endpoint over a reliable fabric if it has enough fragments.
func (pk Packs) postEarly(ep *Endpoint) {
	s := ep.Counts
	if next := ep.Rcv.Expected(); s.postSince != next || s.postAt == 0 {
		s.postSince, s.postAt = next, postFirst
	}
	if uint32(ep.pack.Records()) < s.postAt {
		return
	}
	if c, _ := ep.way(ep.pack.Bytes()); c.Room() > port.BatchMax/2 {
		s.postAt *= 2
		pk.Sched.overtook(ep, pk.sealPack(ep))
		pk.Buffers.post(c)
	}
}

// packRoom ensures that an open Pack has room for a fragment of sizeBytes. If the Pack has too
// little room, packRoom seals it. packRoom returns false if the channel, or the endpoint's share of
// the channel, has no room for the Pack.
func (pk Packs) packRoom(ep *Endpoint, sizeBytes int) bool {
	if ep.pack.Fits(sizeBytes, pk.packBytesMax(ep)) {
		return true
	}
	if c, _ := ep.way(ep.pack.Bytes()); c.Room() <= port.BatchMax/2 {
		return false
	}
	pk.Sched.overtook(ep, pk.sealPack(ep))
	return !ep.pack.Open()
}

// openPack takes a send buffer for a new shared packet that begins with fragment f, and copies f to
// the buffer. If fragment f already has a buffer, this buffer becomes the shared packet without a
// copy, because a shared packet with only one fragment has the layout of an ordinary packet.
// openPack reports whether it has opened the packet, which requires that the send window allows a
// packet, and that a buffer is free.
func (pk Packs) openPack(ep *Endpoint, f *Fragment) bool {
	if !ep.Snd.Open() ||
		!f.hasSeg && !pk.Buffers.takeSeg(ep, &f.seg) && !pk.Buffers.borrowSeg(f, &f.seg) {
		return false
	}
	if !f.hasSeg {
		f.hasSeg = true
		copy(pk.Port.Arena.Bytes(fabric.Buf(f.seg))[frag.FragHeaderBytes:], f.Data.Bytes)
	}
	return true
}

func (pk Packs) addRecord(ep *Endpoint, f *Fragment) {
	p := &ep.pack
	if !p.Open() {
		if pk.Recovery.State(f.seg) == reliability.Queued {
			pk.Recovery.Unqueue(f.seg)
		}
		f.hasSeg = false
		pk.beginPack(ep, f.seg, f.tag, int(f.size))
		return
	}
	p.Append(pk.Port.Arena.Bytes(fabric.Buf(p.seg)), f.tag, f.Data.Bytes)
	if f.hasSeg {
		f.hasSeg = false
		if pk.Recovery.State(f.seg) == reliability.Queued {
			pk.Recovery.Unqueue(f.seg)
		}
		pk.Buffers.giveSeg(ep, f.seg)
	}
}

// beginPack opens a shared packet in send buffer t with one fragment of sizeBytes.
func (pk Packs) beginPack(ep *Endpoint, t reliability.Token, tag uint8, sizeBytes int) {
	pk.Sched.Packs++
	pk.Recovery.Queue(t)
	pk.Buffers.segs[t].ep, pk.Buffers.segs[t].pack = ep, true
	ep.pack = openPack{seg: t}
	ep.pack.Begin(tag, sizeBytes)
}

// sendPack fills the open shared packet with fragments from the front of the endpoint's queue, and
// sends the packet. sendPack returns the packet's length in bytes, or 0 if the packet cannot be
// sent at present.
func (pk Packs) sendPack(ep *Endpoint) int {
	for f := ep.small.queue.first; f != nil && pk.packable(ep, f); f = ep.small.queue.first {
		if ep.Flushes.Behind(f.fence) ||
			!ep.pack.Fits(int(f.size), pk.packBytesMax(ep)) || !ep.pack.Open() && !pk.openPack(ep, f) {
			break
		}
		pk.addRecord(ep, f)
		pk.Sender.unqueue(ep, f)
		pk.Buffers.chain(&ep.pack, f)
	}
	if !ep.pack.Open() {
		return 0
	}
	return pk.sealPack(ep)
}

// SendPacks sends the open shared packets (Packs) of those send queues whose turn it is. Progress
// calls SendPacks at its beginning, before it polls the channels.
func (pk Packs) SendPacks() {
	for turn := pk.Sched.Fresh(); turn != nil && pk.Sched.Packs > 0; {
		next, ep := turn.Next(), turn.Owner
		if next == &ep.large.Flow { // has no Pack, and Rearm may remove it from the list
			next = next.Next()
		}
		if f := &ep.small; turn == &f.Flow && ep.pack.Open() {
			n := pk.sealPack(ep)
			f.Charge(n)
			ep.sentSmall(n)
			if f.Deficit <= 0 || !f.may() {
				pk.Sched.EndTurn(&f.Flow, f.may())
			}
			pk.Sched.Rearm(ep)
		}
		turn = next
	}
	pk.Buffers.post(&pk.Port.Command)
	pk.Buffers.post(&pk.Port.Data)
}

// sealPack seals the open shared packet and adds the packet to the batch of its channel. A shared
// packet with only one fragment becomes an ordinary packet (Frag). sealPack returns the packet's
// length in bytes, or 0 if the batch has no room at present.
func (pk Packs) sealPack(ep *Endpoint) int {
	p := ep.pack
	c, to := ep.way(p.Bytes())
	if ep.roomOn(c) <= 0 {
		return 0
	}
	f := pk.Buffers.segs[p.seg].frag
	pkt := packet{ep: ep, frag: f, seg: p.seg}
	p.Header(&pkt.Header)
	ep.bursts = p.Records() > 1
	if !ep.bursts {
		pk.Buffers.segs[p.seg].pack = false
	} else {
		pk.Count[stats.CntPacked] += uint64(p.Records())
	}
	pk.Recovery.Unqueue(p.seg)
	pk.Sched.Packs--
	ep.pack = openPack{}
	n := pk.Links.seal(&pkt)
	ep.awaitEndOfPack(f, p.Records())
	pk.Buffers.putSegment(c, p.seg, to)
	return n
}

func (pk Packs) failPack(ep *Endpoint, err error) {
	p := ep.pack
	if !p.Open() {
		return
	}
	pk.Sched.Packs--
	ep.pack = openPack{}
	f := pk.Buffers.segs[p.seg].frag
	pk.Recovery.Unqueue(p.seg)
	pk.Buffers.segs[p.seg] = SendSegment{}
	pk.Buffers.giveSeg(ep, p.seg)
	pk.Sent.chainEnded(f, err)
}
