package reliability

// If a sender's window is slightly larger than AckEvery packets, sender and receiver may work in
// turns, each waiting for the other. If the receiver sends an ACK after half of AckEvery packets,
// sender and receiver can work at the same time.
//
//	takes turns   sender    |84>........|84>........     receiver   ......|84 A|.......|84 A|
//	does not      sender    |44>|40>|44>|40>|44>|40>     receiver   ...|44 A|40 A|44 A|40 A|
//
// A lull is a moment when the receiver finds its receive queue empty. The receiver assumes that
// sender and receiver work in turns if, for several consecutive ACKs, at least AckEvery packets
// arrive between two moments with an empty receive queue, and the next packet arrives only after
// their ACK was sent.

// The type "turns" holds the observations from which a receiver concludes that sender and receiver
// work in turns.
type turns struct {
	lulls  uint32 // the count of lulls at the latest ACK
	waited uint8  // ACKs in a row for which the sender seems to have waited
	sooner uint8  // ACKs to come that are sent after half of the packets
}

const (
	// When the sender seems to have waited for waitedMin consecutive ACKs, the receiver sends the
	// following ACKs early, after half of AckEvery packets. After soonerAcks ACKs that were sent
	// early (after half of AckEvery packets), the receiver checks again whether sender and receiver
	// work in turns.
	waitedMin  = 6
	soonerAcks = 128
)

// Pace checks whether the sender seems to wait for ACKs, and must be called before each call of
// TakeAck. The argument "lulls" of Pace counts, modulo 2^32, how often the receiver has found its
// receive queue empty after it had received packets.
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

// ackEvery returns after how many received packets an ACK is sent immediately. The result of
// ackEvery is at least two (unless Rules.AckEvery is one), because another packet may carry the ACK
// of a single packet.
func (t *turns) ackEvery(rules *Rules) int {
	if t.sooner > 0 {
		return max(rules.AckEvery/2, min(rules.AckEvery, 2))
	}
	return rules.AckEvery
}
