package reliability

// A sender whose messages in flight are a little more than AckEvery packets takes turns with its
// receiver: that acknowledges all of them at once, and while the sender makes others it has nothing
// to do. An ACK after half of them has both work at the same time.
//
//	takes turns   sender    |84>........|84>........     receiver   ......|84 A|.......|84 A|
//	does not      sender    |44>|40>|44>|40>|44>|40>     receiver   ...|44 A|40 A|44 A|40 A|
//
// A sender that has more in flight needs no more ACKs, each of which costs it time. The receiver
// knows one that takes turns by this: every ACK covers all that came between two lulls, AckEvery
// packets or more, and nothing comes until it has left. Where packets go on coming there is none,
// or more than one lull between two ACKs.

// turns is what a receiver has seen of that.
type turns struct {
	lulls  uint32 // as of the latest ACK
	waited uint8  // ACKs in a row for which the sender seems to have waited
	sooner uint8  // ACKs to come that leave after half of the packets
}

const (
	// waitedMin is for how many ACKs in a row a sender has to wait before it gets them sooner, and
	// soonerAcks how many it gets: then it is looked at again.
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

// ackEvery is the number of packets after which an ACK waits no longer. That of a lone packet waits
// for something to ride on in any case.
func (t *turns) ackEvery(rules *Rules) int {
	if t.sooner > 0 {
		return max(rules.AckEvery/2, min(rules.AckEvery, 2))
	}
	return rules.AckEvery
}
