package impair

import "math/rand/v2"

// dice is the random number generator that decides on faults. The struct dice contains the
// generator itself, because rand.Rand would call the generator through an interface for every
// datagram.
type dice struct{ pcg rand.PCG }

// odds is a probability p as an integer for fast comparison, p times 2^63.
type odds uint64

func oddsOf(p float64) odds { return odds(p * (1 << 63)) }

// hit is true with the probability o, always for 1 and never for 0. For the probability 0 no random
// number is drawn, and therefore a disabled fault does not change the sequence of the other faults.
func (d *dice) hit(o odds) bool {
	return o != 0 && odds(d.pcg.Uint64()>>1) < o
}

// below returns a number from 0 to n-1, for n > 0. The bias of the result is below n/2^32, which is
// negligible.
func (d *dice) below(n uint32) uint32 {
	return uint32(d.pcg.Uint64() >> 32 * uint64(n) >> 32)
}
