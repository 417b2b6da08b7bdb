package stream

import (
	"math"
	"time"

	"gobtl/internal/mono"
)

// pacer spreads sends over time. A burst is a datagram, or several datagrams that are sent
// together. The time between two bursts is the transmission time of the first burst at the
// configured rate. A sender that has fallen behind its rate exceeds the rate by up to 25 % until it
// has caught up.
type pacer struct {
	nsPerByte  float64   // 0 means no rate limit
	leastNs    float64   // minimum time per byte, from Config.Delay
	due        mono.Time // scheduled time of the next burst
	rest       float64   // part of a nanosecond not in due yet
	gate       mono.Time // earliest time of the next burst, even when late
	burstBytes int       // maximum bytes of a burst
	forfeited  time.Duration
}

const (
	// lagMax is the largest delay for which a sender makes up after it has fallen behind its rate.
	lagMax = 20 * time.Millisecond
	// burstTime is the longest time that a burst may take at the configured rate.
	burstTime = 50 * time.Microsecond
)

// newPacer returns a pacer for a rate, with a minimum delay between the beginnings of two messages.
// messageBytes is the size of each message. A rate or a delay of 0 means no limit. With a delay, a
// burst never contains two messages.
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

// The method "budget" returns the number of bytes that the rate permits at the time "now". The
// result of the method "budget" is either 0 or the largest size of a burst.
func (p *pacer) budget(now mono.Time) int {
	if p.active() && now < p.next() {
		return 0
	}
	return p.burstBytes
}

// The method "next" returns the earliest time at which the next burst is allowed.
func (p *pacer) next() mono.Time { return max(p.due, p.gate) }

// The method "sent" records a burst of the given number of bytes.
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
