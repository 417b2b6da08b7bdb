package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// This file holds the rules by which a Receiver decides when to acknowledge received packets.

// The method accepted updates the ACK state when consecutive packets have been accepted. The
// argument count is the number of these packets, and n is the number of the last one. The argument
// gap of accepted is true if the packets opened or closed a gap in the sequence numbers.
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

// ackDue makes an ACK due at the given time, unless an ACK is due earlier. If ackDue moves the ACK
// to an earlier time, ackDue also ends the longer ACK delay that FlagLater permits.
func (r *Receiver) ackDue(at mono.Time) {
	if at < r.ackAt {
		r.ackAt, r.ackLater = at, false
	}
}

// Ripe reports whether the pending ACK acknowledges at least two packets, and at least
// Rules.AckEvery/4 packets. Ripe returns false for the ACK of a single request, because the reply
// to the request can carry the ACK.
func (r *Receiver) Ripe(rules *Rules) bool {
	return r.unacked > 1 && 4*int(r.unacked) >= rules.AckEvery
}

// Repeated counts a duplicate packet, and reports whether an ACK is due at once. After answersMax
// immediate ACKs within the interval answersEvery, further duplicates cause no immediate ACK until
// the interval ends.
func (r *Receiver) Repeated(now mono.Time) (due bool) {
	r.copies++
	if r.ackAt <= now { // the pending ACK also covers this duplicate
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

// AckDue is the time at which an ACK must be sent, if necessary in a packet without data. AckDue is
// mono.Never if no ACK is pending.
func (r *Receiver) AckDue() mono.Time { return r.ackAt }

// AskAck makes an ACK due after the duration d at the latest, even if there is no packet to
// acknowledge. Callers use AskAck to announce new credits to the peer.
func (r *Receiver) AskAck(now mono.Time, d time.Duration) { r.ackDue(now.Add(d)) }

// AskAckOf makes an ACK due as soon as all packets up to number n have been accepted, because the
// peer has requested this ACK. If all packets up to number n have been acknowledged already,
// AskAckOf does nothing. A number n beyond the receive window is ignored.
func (r *Receiver) AskAckOf(now mono.Time, n seq.Num) {
	switch d := n.Sub(r.next); {
	case d >= 0 && uint32(d) < r.window:
		r.asked, r.askedFor = true, n
	case d < 0 && r.ackAt != mono.Never:
		r.ackDue(now)
	}
}
