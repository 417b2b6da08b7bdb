package peer

import (
	"fmt"
	"time"

	"gobtl/btl/internal/liveness"
	"gobtl/btl/internal/port"
	"gobtl/btl/internal/stats"
	"gobtl/fabric"
	"gobtl/reliability"
)

// SendAgain retransmits packets, at most ResendsPerPass in one call. Retransmissions use the data
// channel, so that acknowledgements on the command channel never wait behind retransmissions.
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
		lostBytes, alone := 0, st.Port.Alone[fabric.Buf(t)]
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
		st.Timers.Paths.Lost(ep, lostBytes, alone)
	}
}

func dead(v *liveness.Verdict) error { return fmt.Errorf("%w: %s", ErrPeerDead, v.Why()) }

// unreadGrace returns an additional time before a peer is declared dead, because this side may not
// have read the latest packets of the peer.
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
