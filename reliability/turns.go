package reliability

// If a sender's window is slightly larger than AckEvery packets, sender and receiver can fall into
// a stop-and-wait pattern. In the stop-and-wait pattern, the sender is idle until the ACK of the
// whole window arrives, and the receiver is idle until the packets of the next window arrive. If
// the receiver sends an ACK for each AckEvery/2 packets, the sender can send while the receiver
// processes earlier packets.
//
//	takes turns   sender    |84>........|84>........     receiver   ......|84 A|.......|84 A|
//	does not      sender    |44>|40>|44>|40>|44>|40>     receiver   ...|44 A|40 A|44 A|40 A|
//
// A lull is a moment when the receiver finds its receive queue empty. The receiver concludes that
// the connection is in the stop-and-wait pattern if the sender seems to have been idle before each
// of several consecutive ACKs. The sender seems to have been idle before an ACK if the ACK covers
// at least AckEvery packets, and the receiver has had exactly one lull (found its receive queue
// empty once) since its previous ACK.

// The type "turns" is a receiver's state for the detection of the stop-and-wait pattern, in which
// sender and receiver wait for each other alternately instead of working at the same time.
type turns struct {
	lulls  uint32 // the count of lulls at the latest ACK
	waited uint8  // ACKs in a row for which the sender seems to have waited
	sooner uint8  // ACKs to come that are sent after half of the packets
}

const (
	// When the sender seems to have been idle before each of waitedMin consecutive ACKs, the receiver
	// sends each of the next soonerAcks ACKs for AckEvery/2 instead of AckEvery packets. After
	// soonerAcks ACKs for AckEvery/2 packets each, the receiver again sends an ACK for each AckEvery
	// packets, and checks again whether the sender seems to be idle before each ACK.
	waitedMin  = 6
	soonerAcks = 128
)

// Pace checks whether the sender seems to have been idle until the ACK that the receiver is about
// to send. The caller must call Pace before each call of TakeAck. The argument "lulls" of Pace is
// the number of times, modulo 2^32, that the receiver has found its receive queue empty after
// receiving packets.
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

// ackEvery returns the number of received packets after which an ACK is sent immediately. Unless
// Rules.AckEvery is 1, the result of ackEvery is at least 2, because the ACK of a single packet can
// often be carried by a packet with data.
func (t *turns) ackEvery(rules *Rules) int {
	if t.sooner > 0 {
		return max(rules.AckEvery/2, min(rules.AckEvery, 2))
	}
	return rules.AckEvery
}
