package reliability

// A sender with slightly more than AckEvery packets in flight may alternate with its receiver, so
// that each of the two always waits for the other. If the receiver sends an ACK after half of the
// packets, sender and receiver can work at the same time.
//
//	takes turns   sender    |84>........|84>........     receiver   ......|84 A|.......|84 A|
//	does not      sender    |44>|40>|44>|40>|44>|40>     receiver   ...|44 A|40 A|44 A|40 A|
//
// A lull is a moment when the receiver finds its receive queue empty. The receiver assumes that the
// two alternate if each ACK covers at least AckEvery packets, which are all packets between two
// lulls, and no further packet arrives until the ACK has been sent.

// The type turns holds the observations from which a receiver concludes that the sender and the
// receiver alternate.
type turns struct {
	lulls  uint32 // the count of lulls at the latest ACK
	waited uint8  // ACKs in a row for which the sender seems to have waited
	sooner uint8  // ACKs to come that are sent after half of the packets
}

const (
	// When a sender has waited for waitedMin consecutive ACKs, the receiver begins to send early
	// ACKs. After soonerAcks early ACKs, the receiver checks again whether the sender and the
	// receiver alternate.
	waitedMin  = 6
	soonerAcks = 128
)

// Pace finds out whether the sender waits for ACKs, and must be called before each call of TakeAck.
// The argument lulls counts, modulo 2^32, how often the receive queue became empty after packets
// had been received.
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

// ackEvery returns the number of received packets after which an ACK is sent at once. The ACK of a
// single packet is always delayed, because another packet may carry the ACK.
func (t *turns) ackEvery(rules *Rules) int {
	if t.sooner > 0 {
		return max(rules.AckEvery/2, min(rules.AckEvery, 2))
	}
	return rules.AckEvery
}
