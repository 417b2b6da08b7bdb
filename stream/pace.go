package stream

import (
	"math"
	"time"

	"gobtl/internal/mono"
)

// pacer spreads what is sent over time: each datagram, or run of them, is due when the one before
// has had its time. Who was late may catch up, a quarter faster than the rate, so that a thread
// that lost its core for some milliseconds still keeps the rate, without a burst.
type pacer struct {
	nsPerByte  float64   // 0: no rate
	leastNs    float64   // for a byte, from the beginning of one message to that of the next
	due        mono.Time // of the next one, on schedule
	rest       float64   // nanoseconds, less than one
	gate       mono.Time // not before this, even when late
	burstBytes int       // what may leave at once
	forfeited  time.Duration
}

const (
	// lagMax is what may be caught up with.
	lagMax = 20 * time.Millisecond
	// burstTime is what a run of datagrams may take at the rate.
	burstTime = 50 * time.Microsecond
)

// newPacer paces at a rate, and with at least a delay for each message of messageBytes; 0 is none.
// Nothing smaller than burstMin is sent, nor more than burstMax at once; with a delay no two
// messages are.
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

// budget is how many bytes may leave now: 0, or a burst.
func (p *pacer) budget(now mono.Time) int {
	if p.active() && now < p.next() {
		return 0
	}
	return p.burstBytes
}

// next is when the next burst may leave.
func (p *pacer) next() mono.Time { return max(p.due, p.gate) }

// sent books what has left.
func (p *pacer) sent(now mono.Time, bytes int) {
	if !p.active() {
		return
	}
	if p.gate == 0 {
		p.due = now // the first one has nothing to catch up with
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
