package main

import (
	"context"
	"math"

	"gobtl/mpi"
)

// epClass is a problem of kernel ep: 2^log2Pairs pairs, and the published sums of the deviates.
type epClass struct {
	log2Pairs  uint
	sumX, sumY float64
}

var epClasses = map[string]epClass{
	"S": {24, -3.247834652034740e3, -6.958407078382297e3},
	"W": {25, -2.863319731645753e3, -6.320053679109499e3},
}

const (
	epSeed      = 271828183
	epBatch     = 1 << 16 // pairs
	epTolerance = 1e-8
)

// epSums is the result of a rank: the sums of the deviates, and the number of pairs in each square
// ring around 0.
type epSums struct {
	x, y  float64
	rings [10]float64
}

// ep makes pairs of normal deviates, each rank its share of the batches.
func ep(ctx context.Context, c *mpi.Comm, name string) (verdict, error) {
	class := epClasses[name]
	var sums epSums
	batches := 1 << class.log2Pairs / epBatch
	for batch := c.Rank(); batch < batches; batch += c.Size() {
		r := random(epSeed)
		r.skip(uint64(batch) * 2 * epBatch)
		sums.batch(r)
	}
	in := append([]float64{sums.x, sums.y}, sums.rings[:]...)
	all := make([]float64, len(in))
	if err := mpi.Allreduce(ctx, c, in, all, mpi.Sum[float64]()); err != nil {
		return verdict{}, err
	}
	v := verdict{what: "sums of deviates"}
	v.compare(all[0], class.sumX, epTolerance)
	v.compare(all[1], class.sumY, epTolerance)
	return v, nil
}

// batch adds a batch of pairs, by the polar method: of the pairs in the unit circle.
func (s *epSums) batch(r random) {
	for range epBatch {
		x, y := 2*r.next()-1, 2*r.next()-1
		t := x*x + y*y
		if t > 1 {
			continue
		}
		t = math.Sqrt(-2 * math.Log(t) / t)
		x, y = x*t, y*t
		s.rings[int(max(math.Abs(x), math.Abs(y)))]++
		s.x += x
		s.y += y
	}
}
