package main

// random is NPB's generator of random numbers: x <- a x mod 2^46, a number in (0, 1) is x / 2^46.
type random uint64

const (
	randomA    = 1220703125 // 5^13
	randomMask = 1<<46 - 1
	cgisftSeed = 314159265 // of all kernels but ep
)

// next is the next number in (0, 1).
func (r *random) next() float64 {
	*r = *r * randomA & randomMask // modulo 2^64 in between, of which 2^46 is a divisor
	return float64(*r) * (1.0 / (1 << 46))
}

// skip goes n numbers on, in log2(n) steps.
func (r *random) skip(n uint64) {
	for a := random(randomA); n > 0; n >>= 1 {
		if n&1 == 1 {
			*r = *r * a & randomMask
		}
		a = a * a & randomMask
	}
}
