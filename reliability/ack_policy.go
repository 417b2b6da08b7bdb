package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// In this file a Receiver decides when it acknowledges received packets.

// accepted does the book-keeping of count accepted packets, the last of which is n; gap says that a
// gap has opened or closed.
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

// ackDue makes an ACK due at an instant, or earlier if one is pending. A request for an earlier ACK
// ends the delay for a lone answer.
func (r *Receiver) ackDue(at mono.Time) {
	if at < r.ackAt {
		r.ackAt, r.ackLater = at, false
	}
}

// Ripe says whether a pending ACK covers at least a quarter of the packets that make it due at
// once, and more than one packet: the ACK of a lone request is to be piggybacked on the answer.
func (r *Receiver) Ripe(rules *Rules) bool {
	return r.unacked > 1 && 4*int(r.unacked) >= rules.AckEvery
}

// Repeated counts a duplicate packet, and says whether an ACK is due for it now, as the peer seems
// to have missed one. After many duplicates no ACK is due: the peer repeats the packet if it has
// to.
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

// AckDue is the time when an ACK must be sent as a packet of its own; mono.Never if none is
// pending.
func (r *Receiver) AckDue() mono.Time { return r.ackAt }

// AskAck makes an ACK due after d, even though nothing arrived: to tell the peer of new credits.
func (r *Receiver) AskAck(now mono.Time, d time.Duration) { r.ackDue(now.Add(d)) }

// AskAckOf makes an ACK due as soon as everything up to packet n has been accepted: the peer waits
// for that ACK. An ACK that was sent already is not repeated, and packets beyond the window are not
// awaited.
func (r *Receiver) AskAckOf(now mono.Time, n seq.Num) {
	switch d := n.Sub(r.next); {
	case d >= 0 && uint32(d) < r.window:
		r.asked, r.askedFor = true, n
	case d < 0 && r.ackAt != mono.Never:
		r.ackDue(now)
	}
}
