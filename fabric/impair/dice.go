package impair

import "math/rand/v2"

// dice is the random number generator that decides on faults.
type dice struct{ pcg rand.PCG }

type odds uint64

func oddsOf(p float64) odds { return odds(p * (1 << 63)) }

// The method hit returns true with the probability o, which means always if o is 1 and never if o
// is 0. No random number is drawn for the probability 0, so that a disabled fault does not change
// the random sequence of the other faults.
func (d *dice) hit(o odds) bool {
	return o != 0 && odds(d.pcg.Uint64()>>1) < o
}

// below returns a number from 0 to n-1, for n > 0.
func (d *dice) below(n uint32) uint32 {
	return uint32(d.pcg.Uint64() >> 32 * uint64(n) >> 32)
}
