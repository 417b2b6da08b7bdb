package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// path is what a sender knows of the round trip to its peer (RFC 6298, RFC 9002 section 5):
// samples are free of the time for which the peer held its acknowledgement back, as far as it
// tells.
type path struct {
	srtt, rttvar time.Duration // smoothed round trip and its mean deviation; 0: no sample yet
	base         time.Duration // the least one of the last one or two baseSpans
	spanLeast    time.Duration // the least one of the present span
	spanBegan    mono.Time
	jitter       time.Duration // by how much longer packets take than others sent beside them
	latest       seq.Num       // the packet sent last of those measured, when, and its round trip
	latestAt     mono.Time
	latestRTT    time.Duration
	sampledAt    mono.Time // when something was measured last
}

// baseSpan is how long the least round trip is remembered, at least: routes change.
const baseSpan = 10 * time.Second

// sample takes a measured round trip.
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

// stale says whether the least round trip is none of late. While everything has to be sent again
// nothing can be measured, and the path may have become shorter.
func (p *path) stale(now mono.Time) bool {
	return p.srtt != 0 && now.Sub(p.sampledAt) > staleWaits*p.wait()
}

// staleWaits is for how many usual waits a measurement holds.
const staleWaits = 16

// wait is how long an answer may take that is not late: what both kinds of time-outs begin with.
func (p *path) wait() time.Duration { return p.srtt + max(4*p.rttvar, p.srtt/2) }

// probe is how long to wait for the first answer: not much longer than usual, for asking costs a
// packet.
func (p *path) probe() time.Duration { return p.srtt + min(max(4*p.rttvar, p.srtt/2), p.srtt) }

// vary takes the round trip of packet n, which was sent at an instant. One that others have
// overtaken did not wait in a queue with them: so its delay differs from packet to packet. (That a
// packet was not overtaken tells something only of such that followed each other closely.)
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
