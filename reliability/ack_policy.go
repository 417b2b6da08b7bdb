package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A Receiver decides here when it acknowledges what has arrived.

// accepted books packets of which n is the last; gap: one has opened or closed.
func (r *Receiver) accepted(now mono.Time, n seq.Num, count uint32, gap bool, delay time.Duration,
	rules *Rules,
) {
	if r.refused.count > 0 {
		r.refused.taken(n, count)
	}
	r.ackNews, r.patient = true, false
	r.last, r.lastAt = n, now
	r.unacked += count
	at := now.Add(delay)
	if int(r.unacked) >= min(r.turns.ackEvery(rules), max(2, int(r.charged/4))) ||
		!r.next.Before(r.limit) || gap && r.Selective {
		at = now
	}
	if r.asked && r.askedFor.Before(r.next) {
		r.asked, at = false, now
	}
	r.ackDue(at)
}

// ackDue makes an ACK due at an instant, or before. Whatever asks for one before its time ends its
// being held back.
func (r *Receiver) ackDue(at mono.Time) {
	if at < r.ackAt {
		r.ackAt, r.ackLater = at, false
	}
}

// Ripe says whether an ACK would cover a quarter of the packets for which it waits no longer, and
// more than one: that of a lone request is to ride on the answer.
func (r *Receiver) Ripe(rules *Rules) bool {
	return r.unacked > 1 && 4*int(r.unacked) >= rules.AckEvery
}

// Repeated books a packet that had come before, and says whether an ACK is due for it now: the peer
// missed one. If there were many none is, for it comes again if it has to.
func (r *Receiver) Repeated(now mono.Time) (due bool) {
	r.copies++
	if r.ackAt <= now { // the one that leaves answers this copy, too
		return true
	}
	if r.answers == 0 || now.Sub(r.answersAt) >= answersEvery {
		r.answersAt, r.answers = now, 0
	}
	if r.answers >= answersMax {
		return false
	}
	r.answers++
	r.ackDue(now)
	return true
}

// AckDue is when an ACK has to leave by itself; mono.Never if none is pending.
func (r *Receiver) AckDue() mono.Time { return r.ackAt }

// AskAck makes an ACK due after d, even though nothing arrived: to tell the peer of new credits.
func (r *Receiver) AskAck(now mono.Time, d time.Duration) { r.ackDue(now.Add(d)) }

// AskAckOf makes an ACK due as soon as everything up to packet n has been accepted: the peer waits
// for it. One that has left already is not repeated, and what lies beyond the window is not
// awaited.
func (r *Receiver) AskAckOf(now mono.Time, n seq.Num) {
	switch d := n.Sub(r.next); {
	case d >= 0 && uint32(d) < r.window:
		r.asked, r.askedFor = true, n
	case d < 0 && r.ackAt != mono.Never:
		r.ackDue(now)
	}
}
