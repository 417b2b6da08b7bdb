package layers

import (
	"math"
	"time"

	"gobtl/internal/mono"
)

// pace limits a stream to a rate.
type pace struct {
	bytesPerNs float64 // 0 for any rate
	since      mono.Time
	offered    float64 // bytes, since then
}

// start begins to count.
func (p *pace) start(bytesPerNs float64, now mono.Time) { *p = pace{bytesPerNs, now, 0} }

// The method due is the number of messages of a size that may be sent now.
func (p *pace) due(now mono.Time, sizeBytes int) int64 {
	if p.bytesPerNs == 0 || sizeBytes == 0 {
		return math.MaxInt64
	}
	ahead := p.bytesPerNs*float64(now.Sub(p.since)) - p.offered
	if ahead < 0 {
		return 0
	}
	return int64(ahead/float64(sizeBytes)) + 1
}

// The method next is the earlier of the instant until and the instant at which the rate allows the
// next message. Without a rate next is until.
func (p *pace) next(until mono.Time) mono.Time {
	if p.bytesPerNs == 0 {
		return until
	}
	return until.Min(p.since.Add(time.Duration(p.offered/p.bytesPerNs) + 1))
}
