package stream

import (
	"math"
	"time"

	"gobtl/internal/mono"
)

// pacer spreads sends over time. Each datagram, or run of datagrams, is due when the time of the
// previous one is over. A late sender may catch up at a quarter more than the rate. So a thread
// that lost its core for some milliseconds still keeps the rate, without a burst.
type pacer struct {
	nsPerByte  float64   // 0: no rate
	leastNs    float64   // time per byte, from the beginning of one message to that of the next
	due        mono.Time // scheduled time of the next burst
	rest       float64   // nanoseconds, less than one
	gate       mono.Time // earliest time of the next burst, even when late
	burstBytes int       // bytes that may leave at once
	forfeited  time.Duration
}

const (
	// lagMax is the longest delay that is caught up with.
	lagMax = 20 * time.Millisecond
	// burstTime is the longest duration of a run of datagrams at the rate.
	burstTime = 50 * time.Microsecond
)

// newPacer returns a pacer for a rate, with at least the given delay for each message of
// messageBytes. 0 means no rate, or no delay. A burst has at least burstMin and at most burstMax
// bytes. With a delay a burst never contains two messages.
func newPacer(
	bitsPerSecond float64, delay time.Duration, messageBytes, burstMin, burstMax int,
) pacer {
	p := pacer{burstBytes: burstMax}
	if bitsPerSecond > 0 {
		p.nsPerByte = 8e9 / bitsPerSecond
	}
	p.leastNs = float64(delay) / float64(messageBytes)
	p.nsPerByte = max(p.nsPerByte, p.leastNs)
	if p.active() {
		p.burstBytes = min(max(burstMin, int(min(float64(burstTime)/p.nsPerByte, 1<<40))), burstMax)
	}
	if delay > 0 {
		p.burstBytes = min(p.burstBytes, max(burstMin, messageBytes))
	}
	return p
}

func (p *pacer) active() bool { return p.nsPerByte > 0 }

// budget returns the number of bytes that may leave now: 0, or a burst.
func (p *pacer) budget(now mono.Time) int {
	if p.active() && now < p.next() {
		return 0
	}
	return p.burstBytes
}

// next returns the instant at which the next burst may leave.
func (p *pacer) next() mono.Time { return max(p.due, p.gate) }

// sent records the bytes that have left.
func (p *pacer) sent(now mono.Time, bytes int) {
	if !p.active() {
		return
	}
	if p.gate == 0 {
		p.due = now // the first burst cannot be late
	}
	if late := now.Sub(p.due); late > lagMax {
		p.forfeited += late - lagMax
		p.due = now.Add(-lagMax)
	}
	gap := p.rest + float64(bytes)*p.nsPerByte
	whole := time.Duration(gap)
	p.rest = gap - float64(whole)
	p.due = p.due.Add(whole)
	p.gate = now.Add(max(whole-whole/5, time.Duration(math.Ceil(float64(bytes)*p.leastNs))))
}
