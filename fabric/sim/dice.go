package sim

import (
	"math"
	"math/rand/v2"
	"time"
)

// The constants in this block select separate streams of random numbers for paths and for nodes.
const (
	dicePath = 1 + iota
	diceNode
)

// dice is one stream of random numbers.
type dice struct{ pcg rand.PCG }

// newDice returns the stream of random numbers of the path from node "a" to node "b" (dicePath), or
// of node "a" (diceNode).
func newDice(seed uint64, purpose, a, b int) dice {
	h := mix(mix(mix(mix(0, seed), uint64(purpose)), uint64(a)), uint64(b))
	var d dice
	d.pcg.Seed(h, mix(h, seed))
	return d
}

// The method "unit" returns a random number with a uniform distribution in [0,1).
func (d *dice) unit() float64 { return float64(d.pcg.Uint64()>>11) / (1 << 53) }

// The method "chance" returns true with the probability p, and otherwise false.
func (d *dice) chance(p float64) bool { return p > 0 && d.unit() < p }

// The method "below" returns a random number with a uniform distribution in [0,n), or 0 if n is
// less than 2.
func (d *dice) below(n int) int {
	if n < 2 {
		return 0
	}
	return int(d.pcg.Uint64() % uint64(n))
}

// The method "within" returns a random duration with a uniform distribution in [0,limit).
func (d *dice) within(limit time.Duration) time.Duration {
	return time.Duration(d.below(int(limit)))
}

// replayDelay returns a random delay between 1 us and 2 s, the logarithm of which has a uniform
// distribution.
func (d *dice) replayDelay() time.Duration {
	const loNs, hiNs = 1e3, 2e9
	return time.Duration(loNs * math.Exp(d.unit()*math.Log(hiNs/loNs)))
}

// fill writes random bytes.
func (d *dice) fill(b []byte) {
	for len(b) > 0 {
		for word := d.pcg.Uint64(); word != 0 && len(b) > 0; word >>= 8 {
			b[0] = byte(word)
			b = b[1:]
		}
	}
}
