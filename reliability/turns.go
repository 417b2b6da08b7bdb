package reliability

// A sender with slightly more than AckEvery packets in flight works in alternation with its
// receiver: the receiver acknowledges all packets at once, and is idle while the sender makes the
// next ones. An ACK after half of the packets lets both work at the same time.
//
//	takes turns   sender    |84>........|84>........     receiver   ......|84 A|.......|84 A|
//	does not      sender    |44>|40>|44>|40>|44>|40>     receiver   ...|44 A|40 A|44 A|40 A|
//
// A sender with more packets in flight needs no extra ACKs, each of which costs it time. The
// receiver recognises alternation by this: each ACK covers all packets between two lulls, AckEvery
// or more, and no packet comes until the ACK has left. With a steady flow there is no lull between
// two ACKs, or more than one.

// turns is a receiver's evidence of such alternation.
type turns struct {
	lulls  uint32 // as of the latest ACK
	waited uint8  // ACKs in a row for which the sender seems to have waited
	sooner uint8  // ACKs to come that leave after half of the packets
}

const (
	// waitedMin is the number of consecutive ACKs for which a sender must wait before it gets early
	// ACKs; soonerAcks is the number of early ACKs before the next check.
	waitedMin  = 6
	soonerAcks = 128
)

// Pace is called before TakeAck; lulls is how often the receiver has found nothing to receive after
// it had received something, modulo 2^32. It finds out whether the sender waits for ACKs.
func (r *Receiver) Pace(lulls uint32, rules *Rules) {
	t := &r.turns
	switch {
	case t.sooner > 0:
		t.sooner--
	case lulls-t.lulls != 1 || int(r.unacked) < rules.AckEvery:
		t.waited = 0
	default:
		if t.waited++; t.waited == waitedMin {
			t.waited, t.sooner = 0, soonerAcks
		}
	}
	t.lulls = lulls
}

// ackEvery is the number of packets after which an ACK is sent at once. The ACK of a lone packet
// waits in any case, to be piggybacked.
func (t *turns) ackEvery(rules *Rules) int {
	if t.sooner > 0 {
		return max(rules.AckEvery/2, min(rules.AckEvery, 2))
	}
	return rules.AckEvery
}
