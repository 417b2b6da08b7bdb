package peer

import (
	"fmt"
	"time"

	"gobtl/btl/internal/errs"
	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/pack"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/frag"
	"gobtl/reliability"
)

// SendAgain retransmits packets, at most ResendsPerPass in one call. Retransmissions use the data
// channel, so that acknowledgements, which use the command channel, never wait behind
// retransmissions.
func (st *Sent) SendAgain() {
	for range st.Rules.ResendsPerPass {
		if st.Recovery.ResendsWaiting() == 0 || st.Port.Data.Room() <= 0 {
			return
		}
		t, cause, _ := st.Recovery.PopResend()
		s := &st.Buffers.segs[t]
		ep := s.ep
		v := ep.Life.Verdict(st.Clock.Unpaused, &st.Timers.Watches.Rules, liveness.Ack, st.unreadGrace())
		if v.Dead && cause != reliability.CauseRefused {
			st.Recovery.Defer(t)
			st.Endings.endDead(ep, &v)
			continue
		}
		lostBytes, uncoalesced := 0, st.Port.Uncoalesced[fabric.Buf(t)]
		if st.Port.State[fabric.Buf(t)]&port.Busy == 0 { // the previous transmission was sent
			if ep.tooLarge(int(s.bytes)) && st.Writer.partsRoom(ep, int(s.bytes)) == 0 {
				st.Recovery.Defer(t)
				return
			}
			if withheld := ep.Snd.Withheld(st.Buffers.seqOf(t)); !withheld {
				if cause != reliability.CauseRefused && cause != reliability.CauseMemory && !s.parted {
					lostBytes = int(s.bytes)
				}
				st.countResend(ep, t, cause)
			}
			st.Writer.refresh(ep, t, s)
			if ep.tooLarge(int(s.bytes)) {
				st.Writer.putParts(ep, t)
			} else {
				st.Buffers.putSegment(&st.Port.Data, t, ep.dataAddr)
			}
		}
		ep.Snd.Repost(st.Clock.Now, t, v.Within)
		st.Sched.Rearm(ep)
		st.Timers.Paths.Lost(ep, lostBytes, uncoalesced)
	}
}

func dead(v *liveness.Verdict) error { return fmt.Errorf("%w: %s", errs.ErrPeerDead, v.Why()) }

// unreadGrace returns the time by which a peer is declared dead later than usual, because this side
// has possibly not read the peer's latest packets yet.
func (st *Sent) unreadGrace() time.Duration {
	if st.Port.Command.Left || st.Port.Data.Left {
		return st.Config.PeerTimeout / 4
	}
	return 0
}

// answeredBy is called when the peer has acknowledged packet t, or has reported a lack of memory
// for packet t. If t is the oldest packet in flight, answeredBy records that the peer has answered.
func (st *Sent) answeredBy(ep *Endpoint, t reliability.Token) {
	if isOldest(&ep.Snd, t) {
		ep.Life.OldestAnswered(st.Clock.Unpaused)
	}
}

func isOldest(s *reliability.Sender, t reliability.Token) bool {
	oldest, _ := s.Window()
	first, ok := s.Token(oldest)
	return ok && first == t
}

// timedOut reports whether a packet is retransmitted because the peer did not acknowledge it in
// time, or had no memory for it.
func timedOut(cause reliability.Cause) bool {
	return cause == reliability.CauseTimeout || cause == reliability.CauseProbe ||
		cause == reliability.CauseMemory
}

func (st *Sent) countResend(ep *Endpoint, t reliability.Token, cause reliability.Cause) {
	unread := st.Port.Command.Left || st.Port.Data.Left
	if ep.Life.Resent(st.Clock.Unpaused, &st.Timers.Watches.Rules, isOldest(&ep.Snd, t),
		timedOut(cause), unread) {
		st.Timers.Watches.AskLife(ep)
	}
	switch cause {
	case reliability.CauseTimeout:
		st.Count[stats.CntRetransmitTimeout]++
	case reliability.CauseProbe:
		st.Count[stats.CntRetransmitProbe]++
	case reliability.CauseDupAck:
		st.Count[stats.CntRetransmitDupAck]++
	case reliability.CauseLost:
		st.Count[stats.CntRetransmitLost]++
	default:
		st.Count[stats.CntRetransmitNack]++
	}
	st.Dirty = true
}

// OnNack handles a Nack, with which the peer refuses a packet. After a Nack for lack of memory, the
// packet is sent again later. After a Nack for a different reason than lack of memory, OnNack ends
// the refused fragments with an error, and the packet is sent again without them, so that the
// peer's receive window can advance. OnNack ignores invalid Nacks, which are for a packet that is
// not in flight, for an empty packet, or for lack of memory for a packet that needs no memory. A
// peer that sends only invalid Nacks for a packet finally counts as dead.
func (st *Sent) OnNack(ep *Endpoint, h *frag.Header, payload []byte) {
	t, ok := ep.Snd.Token(h.Seq)
	if !ok || ep.Snd.Withheld(h.Seq) || st.Buffers.segs[t].void {
		return
	}
	if h.Tag == frag.NackMemory { // a timer retransmits the packet
		if !st.Buffers.segs[t].needsMemory() {
			return
		}
		st.answeredBy(ep, t)
		ep.Snd.NoMemory(st.Clock.Now, t, int(st.Buffers.segs[t].bytes), st.Config.PeerTimeout/4)
		st.Sched.Rearm(ep)
		return
	}
	if h.Tag == frag.NackRecord {
		st.onNackRecord(ep, t, payload[0])
		return
	}
	s := &st.Buffers.segs[t]
	s.void = true
	ep.Snd.Refuse(t)
	st.Sched.Rearm(ep)
	f := s.frag
	err := f.accessError(h.Tag)
	if h.Tag == frag.NackNoHandler {
		err = errs.ErrNoHandler
	}
	ep.flushQueue().Refused(h.Seq, st.toldDone(t), err)
	if s.pack { // a correct peer would refuse single fragments of the packet
		for ; f != nil; f = f.next {
			if f.Err == nil {
				f.Err = err
			}
			st.unanswered(f)
		}
		f = s.begins
	}
	if f == nil || f.Err != nil {
		return
	}
	f.Err = err
	st.unanswered(f)
	if f.state == fragQueued { // the unsent packets of the fragment are dropped
		st.Sender.unqueue(ep, f)
		st.Sched.Rearm(ep)
	}
}

// onNackRecord fails those fragments in packet t whose tag has no handler at the peer, and
// retransmits the packet without these fragments. onNackRecord ignores a repeated or invalid Nack.
func (st *Sent) onNackRecord(ep *Endpoint, t reliability.Token, tag uint8) {
	s := &st.Buffers.segs[t]
	if !s.pack || s.void || s.strip {
		return
	}
	done := pack.CountTag(st.Buffers.recordsOf(t), tag)
	if done == 0 {
		return
	}
	s.strip, s.stripTag = true, tag
	st.answeredBy(ep, t)
	for f := s.frag; f != nil; f = f.next {
		if f.tag == tag && f.Err == nil {
			f.Err = errs.ErrNoHandler
			done--
		}
	}
	if s.mixed {
		done = 0
		st.failBegun(s.begins, tag)
	}
	ep.flushQueue().Refused(st.Buffers.seqOf(t), done, errs.ErrNoHandler)
	ep.Snd.Refuse(t)
	st.Sched.Rearm(ep)
}

// toldDone returns the number of messages in packet t for which Send has already returned Done.
func (st *Sent) toldDone(t reliability.Token) (count int) {
	s := &st.Buffers.segs[t]
	if s.mixed {
		return 0
	}
	if !s.pack {
		if s.frag == nil {
			count = 1
		}
		return count
	}
	count = pack.Count(st.Buffers.recordsOf(t))
	for f := s.frag; f != nil; f = f.next {
		count--
	}
	return count
}

// failBegun ends fragment f with an error if f has the given tag, which the peer has refused.
func (st *Sent) failBegun(f *Fragment, tag uint8) {
	if f == nil || f.tag != tag || f.Err != nil {
		return
	}
	f.Err = errs.ErrNoHandler
	if f.state == fragQueued {
		st.Sender.unqueue(f.Ep, f)
	}
}

// OnNackCounted handles a Nack over a reliable fabric. If the peer had no memory for a fragment,
// the whole fragment is sent again.
func (st *Sent) OnNackCounted(ep *Endpoint, h *frag.Header, payload []byte) {
	tag := uint8(wholePacket)
	if h.Tag == frag.NackRecord {
		tag = payload[0]
	}
	oldest, next := ep.Snd.Window()
	if h.Seq.Before(oldest) || !h.Seq.Before(next) || !ep.Counts.nacks.isNew(h.Seq, tag) {
		return
	}
	err, waits := errs.ErrNoHandler, false
	access := h.Tag == frag.NackAccess || h.Tag == frag.NackBounds || h.Tag == frag.NackRight
	if access {
		err = errs.ErrRemoteAccess
	}
	f, before := ep.Counts.refused(h.Seq)
	for ; f != nil && f.until == h.Seq; f = f.next {
		switch {
		case h.Tag == frag.NackMemory:
			st.resendWhole(ep, f, before)
			return
		case h.Tag != frag.NackRecord || f.tag == tag && !f.put:
			if f.Err, waits = err, !f.hasUntold; access {
				f.Err = f.accessError(h.Tag)
			}
			st.unanswered(f)
		}
	}
	if !waits && h.Tag != frag.NackMemory {
		ep.flushQueue().Refused(h.Seq, 1, err)
	}
}

// resendWhole puts a chunked fragment, for which the peer had no memory, back into its queue. The
// refused fragment becomes the first in the queue, or the second if the first fragment is partly
// sent, because the chunks of two fragments must not be mixed. The argument "before" of resendWhole
// is the fragment before f in the list of fragments that wait for an ACK.
func (st *Sent) resendWhole(ep *Endpoint, f, before *Fragment) {
	if !f.large || f.put {
		return // a small fragment or a put needs no reassembly memory
	}
	st.Count[stats.CntRetransmitNack]++
	ep.Counts.confirm.removeBehind(before, f)
	f.out--
	f.cursor, f.state = 0, fragQueued
	busy := ep.large.queue.first
	if busy != nil && busy.cursor == 0 {
		busy = nil
	}
	ep.large.queue.insert(f, busy)
	ep.Flushes.Again(f, 1, f.until, busy) // each Flush that waited for f waits again
	st.Sched.Pauses.Begin(ep, &ep.Counts.pause, st.Clock.Now)
	st.Sched.Rearm(ep)
}
