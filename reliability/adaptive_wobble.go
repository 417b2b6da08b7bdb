package reliability

import "time"

// wobble counts the rounds with a turn. A round has a turn if the least round trip falls clearly
// after it has risen, or rises clearly after it has fallen. A queue that fills or drains moves the
// least round trips of several rounds in one direction. A program on the path that runs only now
// and then, such as a tunnel in user space, moves the least round trip up and down from round to
// round.
type wobble struct {
	latest time.Duration // the least round trip of the latest round; 0: unknown
	change time.Duration // from the round before the latest round to the latest round
	share  int32         // the smoothed share of rounds with a turn, in parts of shareUnits
}

const (
	wobbleTurn   = 150 * time.Microsecond // both changes of a turn are above wobbleTurn
	wobbleRounds = 64                     // rounds over which the share is smoothed
	// If a shared queue causes the delay, the least round trip turns in one of 20 rounds, and if
	// independent waits cause the delay, in up to two of three rounds. If the fraction of rounds
	// with turns is at most wobbleLeast, the turns have no effect, and from twice wobbleLeast on,
	// they have the full effect.
	wobbleLeast = shareUnits / 8
	wobbleMost  = 4 // target delays
)

// The method round processes the least round trip of a round, where 0 means unknown. The argument
// packet of the method round is the time that the path takes to carry one packet, and a change by
// at most wobbleTurn plus the time of two packets is ignored. The argument steady of the method
// round is false if the round trip falls because the congestion window has become smaller.
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

// The method room returns the part of the delay that may be caused by a program on the path that
// runs only now and then, and not by a queue.
func (w *wobble) room(rules *Rules) time.Duration {
	part := min(max(w.share-wobbleLeast, 0), wobbleLeast)
	return wobbleMost * rules.TargetDelay * time.Duration(part) / wobbleLeast
}
