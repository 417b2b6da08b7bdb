package peer

import (
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// Packs lets fragments share packets.
type Packs struct{ *Services }

// Small fragments that are sent in quick succession share a packet. A shared packet is called a
// Pack, and each fragment in it a record.
//
// The first small fragment to a peer is sent at once in its own packet, because a single
// message must not wait for other messages. The small fragments after the first one are
// copied to a send buffer of the endpoint, the open Pack, until the next call of Progress.
// Sealing a Pack gives the packet its sequence number, acknowledgement and retransmission
// timer. The Pack is sealed and sent when one of the following events occurs:
//
//  - The Pack is full.
//  - The next call of Progress begins.
//  - The scheduler serves the endpoint, if the Pack was opened during a call of Progress.
//  - The Pack of a connection over a reliable fabric holds enough fragments (showPack).
//
// A burst of small messages costs one system call for the first message and one for all
// other messages. If an earlier burst is in flight, a burst needs only one system call,
// because its first message also joins the Pack. A message is sent at once if its endpoint
// has no packet in flight.
//
// While a Pack is open, its endpoint stays in the scheduler's list. The endpoint's next sequence
// number is reserved for the open Pack, so no other packet of the endpoint is sealed before the
// Pack. A Pack is opened only while the send window is open, so an open Pack can always be sealed.

// OpenPack is a packet to which small fragments of an endpoint are still added.
type OpenPack struct {
	Last *Fragment         // last fragment that has an OnDone; segment.frag is the first
	Seg  reliability.Token // the send buffer of the Pack
	pack.Pack
}

// alone reports whether a message that is sent now must be sent immediately, without waiting for
// messages that could share its packet. alone returns true if the endpoint has no burst in flight,
// and has sent no packet in the present call of Progress or after the latest call.
func (ep *Endpoint) alone() bool {
	return ep.sentIn != ep.all.Clock.Epoch && (!ep.bursts || !ep.busy())
}

// packBytesMax is the maximum size of a Pack to this peer, as a datagram.
func (pk *Packs) packBytesMax(ep *Endpoint) int { return min(ep.MTU, pk.Config.PackBytes) }

// Fits reports whether a fragment of sizeBytes is small enough to share a packet.
func (pk *Packs) Fits(ep *Endpoint, sizeBytes int) bool {
	return 2*(sizeBytes+frag.RecordHeaderBytes) <= pk.packBytesMax(ep)-frag.FragHeaderBytes
}

// packable reports whether fragment f may share a packet. Fragments of the transport itself, memory
// operations, and fragments in several memory segments may not share a packet.
func (pk *Packs) packable(ep *Endpoint, f *Fragment) bool {
	return !f.urgent && !f.put && f.Op == nil && !f.Data.Scattered() && f.tag <= frag.TagUserMax &&
		pk.Fits(ep, int(f.size))
}

// packSend copies fragment f to the endpoint's open Pack. packSend returns false if f cannot share
// a packet now, for example because other fragments are queued before f. The caller keeps the
// descriptor of f unless f.Signal is set.
func (pk *Packs) packSend(ep *Endpoint, f *Fragment) bool {
	if !ep.overtakes(nil) || ep.ID.State() != StateConnected || !pk.packable(ep, f) {
		return false
	}
	if !pk.packRoom(ep, int(f.size)) || !ep.Pack.Open() && !pk.openPack(ep, f) {
		return false
	}
	pk.addRecord(ep, f)
	if f.signal {
		pk.Buffers.chain(&ep.Pack, f)
	}
	pk.Sched.armFlow(&ep.Small)
	if ep.ID.Counted {
		pk.showPack(ep)
	}
	return true
}

// packData copies data to the endpoint's open Pack, without a descriptor. packData returns false if
// data cannot share a packet now.
func (pk *Packs) packData(ep *Endpoint, tag uint8, data []byte) bool {
	if !ep.overtakes(nil) || ep.ID.State() != StateConnected || !pk.Fits(ep, len(data)) {
		return false
	}
	var t reliability.Token
	if !pk.packRoom(ep, len(data)) ||
		!ep.Pack.Open() && (!ep.Snd.Open() || !pk.Buffers.takeSeg(ep, &t)) {
		return false
	}
	if p := &ep.Pack; !p.Open() {
		pk.beginPack(ep, t, tag, len(data))
		copy(pk.Port.Arena.Bytes(SegBuf(t))[frag.FragHeaderBytes:], data)
	} else {
		p.Append(pk.Port.Arena.Bytes(SegBuf(p.Seg)), tag, data)
	}
	pk.Sched.armFlow(&ep.Small)
	if ep.ID.Counted {
		pk.showPack(ep)
	}
	return true
}

// ShowFirst is the number of fragments at which the first Pack after a packet from the peer is
// posted early, over a reliable fabric.
const ShowFirst = 16

// showPack posts the open Pack of an endpoint over a reliable fabric when the Pack holds enough
// fragments.
func (pk *Packs) showPack(ep *Endpoint) {
	s := ep.Counts
	if next := ep.Rcv.Expected(); s.showSince != next || s.showAt == 0 {
		s.showSince, s.showAt = next, ShowFirst
	}
	if uint32(ep.Pack.Records()) < s.showAt {
		return
	}
	if c, _ := ep.Pack.channel(ep); c.Room() > port.BatchMax/2 {
		s.showAt *= 2
		pk.Sched.overtook(ep, pk.sealPack(ep))
		pk.Buffers.post(c)
	}
}

// packRoom makes room in the open Pack for a fragment of sizeBytes. A Pack without enough room is
// sealed and added to the channel's batch.
func (pk *Packs) packRoom(ep *Endpoint, sizeBytes int) bool {
	if ep.Pack.Fits(sizeBytes, pk.packBytesMax(ep)) {
		return true
	}
	if c, _ := ep.Pack.channel(ep); c.Room() <= port.BatchMax/2 {
		return false
	}
	pk.Sched.overtook(ep, pk.sealPack(ep))
	return true
}

func (p *OpenPack) channel(ep *Endpoint) (*port.Channel, fabric.Addr) {
	return ep.way(p.Bytes())
}

// openPack takes a send buffer for a new Pack that begins with fragment f, and copies f to the
// buffer. If f already has a buffer, this buffer becomes the Pack without a copy, because a Pack
// with one fragment has the layout of an ordinary packet. openPack returns false if the window is
// closed or no buffer is free.
func (pk *Packs) openPack(ep *Endpoint, f *Fragment) bool {
	if !ep.Snd.Open() ||
		!f.hasSeg && !pk.Buffers.takeSeg(ep, &f.Seg) && !pk.Buffers.borrowSeg(f, &f.Seg) {
		return false
	}
	if !f.hasSeg {
		f.hasSeg = true
		copy(pk.Port.Arena.Bytes(SegBuf(f.Seg))[frag.FragHeaderBytes:], f.Data.Bytes)
	}
	return true
}

func (pk *Packs) addRecord(ep *Endpoint, f *Fragment) {
	p := &ep.Pack
	if !p.Open() {
		if pk.Recovery.State(f.Seg) == reliability.Queued {
			pk.Recovery.Unqueue(f.Seg)
		}
		f.hasSeg = false
		pk.beginPack(ep, f.Seg, f.tag, int(f.size))
		return
	}
	p.Append(pk.Port.Arena.Bytes(SegBuf(p.Seg)), f.tag, f.Data.Bytes)
	if f.hasSeg {
		f.hasSeg = false
		if pk.Recovery.State(f.Seg) == reliability.Queued {
			pk.Recovery.Unqueue(f.Seg)
		}
		pk.Buffers.giveSeg(ep, f.Seg)
	}
}

// beginPack opens a Pack in send buffer t with one fragment of sizeBytes.
func (pk *Packs) beginPack(ep *Endpoint, t reliability.Token, tag uint8, sizeBytes int) {
	pk.Sched.Packs++
	pk.Recovery.Queue(t)
	pk.Buffers.Segs[t].Ep, pk.Buffers.Segs[t].pack = ep, true
	ep.Pack = OpenPack{Seg: t}
	ep.Pack.Begin(tag, sizeBytes)
}

// chain adds a fragment of the open Pack to the list of fragments whose OnDone is called when the
// Pack is acknowledged.
func (bu *Buffers) chain(p *OpenPack, f *Fragment) {
	f.State, f.Out, f.cursor, f.Next = FragSent, 1, f.size, nil
	if p.Last == nil {
		bu.Segs[p.Seg].Frag = f
	} else {
		p.Last.Next = f
	}
	p.Last = f
}

// sendPack fills the open Pack with fragments from the front of the endpoint's queue, and sends the
// Pack. sendPack returns the packet's length in bytes, or 0 if the packet cannot be sent now.
func (pk *Packs) sendPack(ep *Endpoint) int {
	for f := ep.Small.Queue.First; f != nil && pk.packable(ep, f); f = ep.Small.Queue.First {
		if ep.behindFence(f) ||
			!ep.Pack.Fits(int(f.size), pk.packBytesMax(ep)) || !ep.Pack.Open() && !pk.openPack(ep, f) {
			break
		}
		pk.addRecord(ep, f)
		pk.Sender.unqueue(ep, f)
		pk.Buffers.chain(&ep.Pack, f)
	}
	if !ep.Pack.Open() {
		return 0
	}
	return pk.sealPack(ep)
}

// SendPacks sends the open Packs of flows whose turn it is, at the beginning of a call of
// Progress and before the polls.
func (pk *Packs) SendPacks() {
	for turn := pk.Sched.Fresh(); turn != nil && pk.Sched.Packs > 0; {
		next, ep := turn.Next(), turn.Owner()
		if f := &ep.Small; turn == &f.Flow && ep.Pack.Open() {
			n := pk.sealPack(ep)
			f.Charge(n)
			ep.sentSmall(n)
			if f.Deficit() <= 0 || !f.may() {
				pk.Sched.endTurn(f)
			}
			pk.Sched.Rearm(ep)
		}
		turn = next
	}
	pk.Buffers.post(&pk.Port.Command)
	pk.Buffers.post(&pk.Port.Data)
}

// sealPack seals the open Pack and adds the packet to the batch of its channel. A Pack with only
// one fragment becomes an ordinary packet (Frag). sealPack returns the packet's length in bytes, or
// 0 if the batch has no room now.
func (pk *Packs) sealPack(ep *Endpoint) int {
	p := ep.Pack
	c, to := p.channel(ep)
	if ep.roomOn(c) <= 0 {
		return 0
	}
	f := pk.Buffers.Segs[p.Seg].Frag
	pkt := packet{ep: ep, frag: f, seg: p.Seg}
	p.Header(&pkt.Header)
	ep.bursts = p.Records() > 1
	if !ep.bursts {
		pk.Buffers.Segs[p.Seg].pack = false
	} else {
		pk.Count[stats.CntPacked] += uint64(p.Records())
	}
	pk.Recovery.Unqueue(p.Seg)
	pk.Sched.Packs--
	ep.Pack = OpenPack{}
	n := pk.Links.seal(&pkt)
	ep.awaitEndOfPack(f, p.Records())
	pk.Buffers.PutSegment(c, p.Seg, to)
	return n
}

func (pk *Packs) failPack(ep *Endpoint, err error) {
	p := ep.Pack
	if !p.Open() {
		return
	}
	pk.Sched.Packs--
	ep.Pack = OpenPack{}
	f := pk.Buffers.Segs[p.Seg].Frag
	pk.Recovery.Unqueue(p.Seg)
	pk.Buffers.Segs[p.Seg] = SendSegment{}
	pk.Buffers.giveSeg(ep, p.Seg)
	pk.Sent.chainEnded(f, err)
}

// chainEnded ends the send of fragment f and of the other fragments linked by next, which have
// shared its packet. A non-nil err becomes the error of each fragment.
func (st *Sent) chainEnded(f *Fragment, err error) {
	for f != nil {
		next := f.Next
		if err != nil {
			f.Err = err
		}
		st.SegEnded(f)
		f = next
	}
}

// onNackRecord ends the fragments in packet t whose tag has no handler at the peer with an error,
// and retransmits the packet without them. onNackRecord returns false for a repeated or invalid
// Nack.
func (st *Sent) onNackRecord(ep *Endpoint, t reliability.Token, tag uint8) bool {
	s := &st.Buffers.Segs[t]
	if !s.pack || s.void || s.strip {
		return false
	}
	done := pack.CountTag(st.Buffers.recordsOf(t), tag)
	if done == 0 {
		return false
	}
	s.strip, s.stripTag = true, tag
	st.answeredBy(ep, t)
	for f := s.Frag; f != nil; f = f.Next {
		if f.tag == tag && f.Err == nil {
			f.Err = ErrNoHandler
			done--
		}
	}
	if s.mixed {
		done = 0
		st.failBegun(s.begins, tag)
	}
	ep.FlushQueue().Refused(st.Buffers.seqOf(t), done, ErrNoHandler)
	ep.Snd.Refuse(t)
	st.Sched.Rearm(ep)
	return true
}

// toldDone returns the number of messages in packet t for which Send has already returned Done.
func (st *Sent) toldDone(t reliability.Token) (count int) {
	s := &st.Buffers.Segs[t]
	if s.mixed {
		return 0
	}
	if !s.pack {
		if s.Frag == nil {
			count = 1
		}
		return count
	}
	count = pack.Count(st.Buffers.recordsOf(t))
	for f := s.Frag; f != nil; f = f.Next {
		count--
	}
	return count
}

// recordsOf returns the payload of a sealed Pack, which consists of records (fragments with short
// headers).
func (bu *Buffers) recordsOf(t reliability.Token) []byte {
	return bu.Port.Arena.Bytes(SegBuf(t))[frag.FragHeaderBytes:bu.Segs[t].Bytes]
}
