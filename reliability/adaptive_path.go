package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// The type "path" is a sender's estimate of the round trip to its peer (RFC 6298, RFC 9002 section
// 5). The ACK delay that the peer reports is subtracted from each round-trip sample.
type path struct {
	srtt, rttvar time.Duration // smoothed round trip, its mean deviation; 0: no sample yet
	base         time.Duration // least round trip of the last one or two baseSpans
	spanLeast    time.Duration // least round trip of the present span
	spanBegan    mono.Time
	jitter       time.Duration // additional delay of packets that later packets have overtaken
	latest       seq.Num       // the latest sent of the measured packets
	latestAt     mono.Time
	latestRTT    time.Duration
	sampledAt    mono.Time // when a round trip was measured last
}

// A sender remembers the lowest round trip of a path for at least the time baseSpan.
const baseSpan = 10 * time.Second

// The method "sample" processes a round-trip sample.
func (p *path) sample(now mono.Time, rtt time.Duration) {
	rtt = max(rtt, time.Microsecond)
	p.sampledAt = now
	if p.srtt == 0 {
		p.srtt, p.rttvar, p.base, p.spanLeast, p.spanBegan = rtt, rtt/2, rtt, rtt, now
		return
	}
	p.spanLeast = min(p.spanLeast, rtt)
	p.base = min(p.base, rtt)
	if now.Sub(p.spanBegan) > baseSpan {
		p.base, p.spanLeast, p.spanBegan = p.spanLeast, rtt, now
	}
	p.rttvar += (max(p.srtt-rtt, rtt-p.srtt) - p.rttvar) / 4
	p.srtt += (rtt - p.srtt) / 8
}

// The method "stale" reports whether the estimate of the round trip is outdated because its latest
// sample is too old.
func (p *path) stale(now mono.Time) bool {
	return p.srtt != 0 && now.Sub(p.sampledAt) > staleWaits*p.wait()
}

// staleWaits is the age of the latest round-trip sample, in multiples of path.wait, beyond which
// the estimate of the round trip is outdated.
const staleWaits = 16

// wait returns the time that the sender waits for the ACK of a packet before this ACK counts as
// late.
func (p *path) wait() time.Duration { return p.srtt + max(4*p.rttvar, p.srtt/2) }

// The method "probe" returns how long the sender waits without an ACK before it sends the first
// probe (a retransmission of the oldest packet).
func (p *path) probe() time.Duration { return p.srtt + min(max(4*p.rttvar, p.srtt/2), p.srtt) }

// The method "vary" updates the path's jitter estimate with a round-trip sample of packet n, which
// was sent at the time sentAt. If a packet that was sent after packet n has arrived before it, the
// additional delay of packet n counts as jitter, because a queue cannot have caused this delay.
func (p *path) vary(n seq.Num, sentAt mono.Time, rtt time.Duration) {
	if p.latestRTT != 0 && n.Before(p.latest) {
		p.jitter += (max(rtt-p.latestRTT, 0) - p.jitter) / 16
		return
	}
	if sentAt.Sub(p.latestAt) < max(delayNoise/4, p.jitter/8) {
		p.jitter -= p.jitter / 16
	}
	p.latest, p.latestAt, p.latestRTT = n, sentAt, rtt
}
