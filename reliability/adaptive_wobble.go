package reliability

import "time"

// The type "wobble" measures how often the lowest round trip changes between rising and falling. A
// round is the time of about one round trip. A round has a turn if its lowest round trip has
// clearly fallen after a clear rise in the previous round, or has clearly risen after a clear fall
// in the previous round. While a queue fills or drains, the lowest round trip changes in the same
// direction for several rounds. If a program on the path, such as a tunnel in user space, is
// scheduled irregularly, the lowest round trip moves up and down from round to round.
type wobble struct {
	latest time.Duration // the least round trip of the latest round; 0: unknown
	change time.Duration // from the round before the latest round to the latest round
	share  int32         // the smoothed share of rounds with a turn, in parts of shareUnits
}

const (
	wobbleTurn   = 150 * time.Microsecond // the rise and the fall of a turn are above wobbleTurn
	wobbleRounds = 64                     // rounds over which the share is smoothed
	// If a shared queue causes the delay, the lowest round trip of a round changes its direction (from
	// rising to falling or back) in about one of 20 rounds. If pauses of a program cause the delay,
	// the lowest round trip of a round changes its direction (from rising to falling or back) in up to
	// two of three rounds. If the lowest round trip changes its direction in at most a fraction
	// wobbleLeast of the rounds, the target delay is not changed. The target delay is raised most if
	// the lowest round trip changes its direction in a fraction of at least twice wobbleLeast of the
	// rounds.
	wobbleLeast = shareUnits / 8
	wobbleMost  = 4 // target delays
)

// The method "round" processes the lowest round trip of the past round. The argument "least" of the
// method "round" is 0 if no round trip was measured in the past round. The argument "packet" of the
// method "round" is the time that the path takes to carry one packet. Changes of the lowest round
// trip by at most wobbleTurn plus the time of two packets are ignored. The argument "steady" of the
// method "round" is false if the congestion window was reduced in the past round. A round with a
// reduction of the congestion window is not counted, because the reduction by itself changes the
// round trip.
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

// The method "room" returns the time that is added to the target delay because a program on the
// path, and not a queue, causes a part of the delay.
func (w *wobble) room(rules *Rules) time.Duration {
	part := min(max(w.share-wobbleLeast, 0), wobbleLeast)
	return wobbleMost * rules.TargetDelay * time.Duration(part) / wobbleLeast
}
