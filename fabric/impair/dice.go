package impair

import "math/rand/v2"

// The type "dice" is the random number generator that decides which faults are injected.
type dice struct{ pcg rand.PCG }

type odds uint64

func oddsOf(p float64) odds { return odds(p * (1 << 63)) }

// The method "hit" returns true with the probability "o", and otherwise false. For the probability
// 0, the method "hit" draws no random number, so that a disabled fault does not change the random
// sequence of the enabled faults.
func (d *dice) hit(o odds) bool {
	return o != 0 && odds(d.pcg.Uint64()>>1) < o
}

// The method "below" returns a random number from 0 to n-1. The argument n must be positive.
func (d *dice) below(n uint32) uint32 {
	return uint32(d.pcg.Uint64() >> 32 * uint64(n) >> 32)
}
