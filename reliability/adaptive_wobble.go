package reliability

import "time"

// wobble counts the rounds in which the least round trip has turned around by much: after a rise
// the least round trip has fallen again, or has risen again after a fall. A queue that fills or
// drains moves the least round trips of several rounds in one direction, whoever fills the queue.
// A program on the path that runs only now and then, such as a tunnel in user space, moves the
// least round trip up and down from round to round.
//
// A filter that takes the least of the latest samples as the present delay, as in LEDBAT (RFC 6817,
// section 4.2) or in Copa, does not remove such a wait, because all packets of a round wait for the
// same program.
type wobble struct {
	latest time.Duration // the least round trip of the latest round; 0: unknown
	change time.Duration // from the round before the latest round to the latest round
	share  int32         // the smoothed share of rounds with a turn, in parts of shareUnits
}

const (
	wobbleTurn   = 150 * time.Microsecond // both changes of a turn are above wobbleTurn
	wobbleRounds = 64                     // rounds over which the share is smoothed
	// Senders that share a queue turn in one of 20 rounds, and independent waits in up to two of
	// three. The share is nothing up to wobbleLeast, and everything from twice wobbleLeast on.
	wobbleLeast = shareUnits / 8
	wobbleMost  = 4 // target delays
)

// round takes the least round trip of a round, or 0. The argument packet of round is the time that
// the path takes for a packet, and changes of two packets are no turn. If steady is false, the
// round trip falls because the window has become smaller.
func (w *wobble) round(least, packet time.Duration, steady bool) {
	if least == 0 || !steady {
		w.latest, w.change = 0, 0
		return
	}
	if w.latest == 0 {
		w.latest = least
		return
	}
	last, much := w.change, wobbleTurn+2*packet
	w.change, w.latest = least-w.latest, least
	turn := int32(0)
	if w.change > much && last < -much || w.change < -much && last > much {
		turn = shareUnits
	}
	w.share += (turn - w.share) / wobbleRounds
}

// room is the delay that may be wobble, and need not be a queue.
func (w *wobble) room(rules *Rules) time.Duration {
	part := min(max(w.share-wobbleLeast, 0), wobbleLeast)
	return wobbleMost * rules.TargetDelay * time.Duration(part) / wobbleLeast
}
