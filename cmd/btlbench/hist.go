package main

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// histMaxNs bounds the round trips that a histogram tells apart; longer ones count as this long.
const histMaxNs = 600e9

// hist records round trips in nanoseconds at three significant digits over their full range.
type hist struct {
	h *hdrhistogram.Histogram
	// clipped is the number of values beyond histMaxNs.
	clipped int64
}

func newHist() *hist { return &hist{h: hdrhistogram.New(1, histMaxNs, 3)} }

// record adds one round trip.
func (h *hist) record(roundTripNs int64) {
	if h.h.RecordValue(roundTripNs) != nil {
		h.clipped++
		_ = h.h.RecordValue(histMaxNs) // In range by definition.
	}
}

func (h *hist) reset() {
	h.h.Reset()
	h.clipped = 0
}

func (h *hist) merge(other *hist) {
	h.h.Merge(other.h)
	h.clipped += other.clipped
}

func (h *hist) count() int64 { return h.h.TotalCount() }

// latencyStats are half round trips in microseconds.
type latencyStats struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`
}

// stats returns the latencies, or nil when nothing was recorded.
func (h *hist) stats() *latencyStats {
	if h.count() == 0 {
		return nil
	}
	half := func(roundTripNs float64) float64 { return math.Round(roundTripNs/2) / 1e3 }
	at := func(percentile float64) float64 {
		return half(float64(h.h.ValueAtPercentile(percentile)))
	}
	return &latencyStats{
		Min: half(float64(h.h.Min())), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: half(float64(h.h.Max())), Mean: half(h.h.Mean()),
	}
}
