package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The code in this file decides when a Receiver acknowledges received packets.

// The method "accepted" decides when an ACK of the accepted packet n is due. The argument "gap" of
// the method "accepted" says whether the packet has opened or closed a gap in the received sequence
// numbers.
func (r *Receiver) accepted(now mono.Time, n seq.Num, gap bool, delay time.Duration, rules *Rules) {
	if r.refused > 0 && r.rare.refused.taken(n) {
		r.refused--
	}
	r.ackNews, r.patient = true, false
	r.last, r.lastAt = n, now
	r.unacked++
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

// ackDue makes an ACK due at the given time, unless an ACK is already due before this time. If the
// pending ACK is delayed until after the given time, as frag.FlagLater permits, ackDue ends this
// delay.
func (r *Receiver) ackDue(at mono.Time) {
	if at < r.ackAt {
		r.ackAt, r.ackLater = at, false
	}
}

// Ripe reports whether the pending ACK is worth sending, because it covers at least two packets and
// at least Rules.AckEvery/4 packets. Ripe returns false for a single unacknowledged packet, such as
// a request, because the reply to it can carry the ACK.
func (r *Receiver) Ripe(rules *Rules) bool {
	return r.unacked > 1 && 4*int(r.unacked) >= rules.AckEvery
}

// Repeated counts a received duplicate packet, and reports whether the packet makes an ACK due
// immediately. In each interval of the length answersEvery, at most answersMax duplicates cause an
// immediate ACK.
func (r *Receiver) Repeated(now mono.Time) (due bool) {
	r.copies++
	if r.ackAt <= now { // the pending ACK also covers this duplicate
		return true
	}
	d := r.needRare()
	if d.answers == 0 || now.Sub(d.answersAt) >= answersEvery {
		d.answersAt, d.answers = now, 0
	}
	if d.answers >= answersMax {
		return false
	}
	d.answers++
	r.ackDue(now)
	return true
}

// AckDue returns the time at which the pending ACK must be sent, in a packet without data if no
// packet with data can carry the ACK. AckDue is mono.Never if no ACK is pending.
func (r *Receiver) AckDue() mono.Time { return r.ackAt }

// AskAck makes an ACK due after the duration d or earlier, even if all received packets are already
// acknowledged. A receiver that has new credits for the peer calls AskAck to announce them before
// the next packet arrives.
func (r *Receiver) AskAck(now mono.Time, d time.Duration) { r.ackDue(now.Add(d)) }

// AskAckOf records that the peer has requested an ACK of all packets up to and including number n.
// The requested ACK becomes due as soon as all packets up to and including number n have been
// accepted. AskAckOf does nothing if packet n was already acknowledged, or if the number n is
// beyond the receive window.
func (r *Receiver) AskAckOf(now mono.Time, n seq.Num) {
	switch d := n.Sub(r.next); {
	case d >= 0 && uint32(d) < r.window:
		r.asked, r.askedFor = true, n
	case d < 0 && r.ackAt != mono.Never:
		r.ackDue(now)
	}
}
