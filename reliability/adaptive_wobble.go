package reliability

import "time"

// wobble counts the rounds with a turn. A round, which lasts about one round trip, has a turn if
// the least round trip in it falls clearly after a clear rise, or rises clearly after a clear fall.
// While a queue fills or drains, the least round trip changes in the same direction for several
// rounds. If a program on the path runs only from time to time, such as a tunnel in user space, the
// least round trip moves up and down from round to round.
type wobble struct {
	latest time.Duration // the least round trip of the latest round; 0: unknown
	change time.Duration // from the round before the latest round to the latest round
	share  int32         // the smoothed share of rounds with a turn, in parts of shareUnits
}

const (
	wobbleTurn   = 150 * time.Microsecond // both changes of a turn are above wobbleTurn
	wobbleRounds = 64                     // rounds over which the share is smoothed
	// If a shared queue causes the delay, the least round trip changes its direction in one of 20
	// rounds. If pauses of a program cause the delay, the least round trip changes its direction in up
	// to two of three rounds. The fraction of rounds with a turn (a change of direction) has no
	// effect on the target delay up to wobbleLeast, and the full effect from twice wobbleLeast on.
	wobbleLeast = shareUnits / 8
	wobbleMost  = 4 // target delays
)

// The method "round" processes the least round trip of the past round, or 0 if no round trip was
// measured. The argument "packet" of the method "round" is the time that the path takes to carry
// one packet. Changes of the least round trip by at most wobbleTurn plus the time of two packets
// are ignored. The argument "steady" of the method "round" is false if the congestion window has
// become smaller, which changes the round trip by itself.
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

// The method "room" returns by how much the target delay is raised because part of the delay comes
// from a program on the path, and not from a queue.
func (w *wobble) room(rules *Rules) time.Duration {
	part := min(max(w.share-wobbleLeast, 0), wobbleLeast)
	return wobbleMost * rules.TargetDelay * time.Duration(part) / wobbleLeast
}
