package impair

import "math/rand/v2"

// dice decides on faults. It uses the generator itself, not rand.Rand, which would call it through
// an interface for every datagram.
type dice struct{ pcg rand.PCG }

// odds is a probability made ready for comparing: p times 2^63.
type odds uint64

func oddsOf(p float64) odds { return odds(p * (1 << 63)) }

// hit is true with the given odds: always for 1, never for 0. Without odds it draws no number, so a
// fault that is switched off does not change the sequence of the others.
func (d *dice) hit(o odds) bool {
	return o != 0 && odds(d.pcg.Uint64()>>1) < o
}

// below returns a number from 0 to n-1, n > 0. The bias is below n/2^32 and of no concern here.
func (d *dice) below(n uint32) uint32 {
	return uint32(d.pcg.Uint64() >> 32 * uint64(n) >> 32)
}
