package layers

import (
	"math"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// histMaxNs is the longest round trip of a histogram, and longer round trips count as histMaxNs.
const histMaxNs = 600e9

// Hist records round trips in nanoseconds with three significant digits.
type Hist struct {
	h *hdrhistogram.Histogram
	// Clipped is the number of values beyond histMaxNs.
	Clipped int64
}

// NewHist returns an empty histogram.
func NewHist() *Hist { return &Hist{h: hdrhistogram.New(1, histMaxNs, 3)} }

// Record adds the time of one round trip.
func (h *Hist) Record(roundTripNs int64) {
	if h.h.RecordValue(roundTripNs) != nil {
		h.Clipped++
		_ = h.h.RecordValue(histMaxNs) // In range by definition.
	}
}

// Reset removes all values.
func (h *Hist) Reset() {
	h.h.Reset()
	h.Clipped = 0
}

// Merge adds the samples of another histogram.
func (h *Hist) Merge(other *Hist) {
	h.h.Merge(other.h)
	h.Clipped += other.Clipped
}

// Count is the number of recorded values.
func (h *Hist) Count() int64 { return h.h.TotalCount() }

// LatencyStats are half round trips in microseconds.
type LatencyStats struct {
	Min  float64 `json:"min"`
	P50  float64 `json:"p50"`
	P90  float64 `json:"p90"`
	P99  float64 `json:"p99"`
	P999 float64 `json:"p999"`
	Max  float64 `json:"max"`
	Mean float64 `json:"mean"`

	P9999 float64 `json:"p9999"`
}

// Stats returns the latencies, or nil if nothing was recorded.
func (h *Hist) Stats() *LatencyStats {
	if h.Count() == 0 {
		return nil
	}
	half := func(roundTripNs float64) float64 { return math.Round(roundTripNs/2) / 1e3 }
	at := func(percentile float64) float64 {
		return half(float64(h.h.ValueAtPercentile(percentile)))
	}
	return &LatencyStats{
		Min: half(float64(h.h.Min())), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		P9999: at(99.99),
		Max:   half(float64(h.h.Max())), Mean: half(h.h.Mean()),
	}
}
