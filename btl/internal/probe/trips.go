package probe

import (
	"time"

	"gobtl/fabric"
)

// Peers on long paths get more credits than the receive buffer has room for, because most of their
// packets are in transit (reliability/stretch.go). The code in this file measures round trips and
// detects overruns of the receive buffer. Round trips are measured by Pings and not by ACKs,
// because the peer answers a Ping immediately, but is allowed to delay an ACK. The result of a
// measurement is the minimum over several Pings.

// The type "trip" measures the round trip to a peer by Pings.
type trip struct {
	answers int32 // number of Pongs received, up to tripFirst
	nonce   uint64
	askedAt Time             // time of the latest Ping, or 0 after its answer
	nextAt  Time             // when the next Ping may be sent
	least   [2]time.Duration // minimum of this period, and of the previous period, or 0
	since   Time             // when this period began
}

const (
	// tripNear is the round trip below which a peer gets no more credits than the receive buffer has
	// room for.
	tripNear = time.Millisecond
	// tripFirst is the number of answered Pings after which a measured round trip is used. Until
	// tripFirst Pings are answered, each Ping is sent tripSoon after the answer to the previous Ping.
	tripFirst = 4
	tripSoon  = 200 * time.Millisecond
	// tripEvery is the interval between two Pings after tripFirst Pings were answered. A measured
	// round trip expires after tripPeriod, because the path can change.
	tripEvery  = time.Second
	tripPeriod = 10 * time.Second
	// overrunsEvery is the minimum interval between two queries of the fabric's overrun counters.
	overrunsEvery = 10 * time.Millisecond
	// overrunsLeast is the minimum number of packets between two queries of the overrun counters. If a
	// channel has receive buffers for fewer than overrunsLeast packets, the number of these buffers is
	// the minimum.
	overrunsLeast = 16
)

// MayMeasure reports whether a measurement of the round trip to the peer is due.
func (p *Path) MayMeasure(now Time) bool {
	return !p.near && (p.trip == nil || now >= p.trip.nextAt)
}

// Measure records that a Ping with the given nonce is sent to measure the round trip.
func (p *Path) Measure(now Time, nonce uint64) {
	if p.trip == nil {
		p.trip = new(trip)
	}
	p.trip.nonce, p.trip.askedAt, p.trip.nextAt = nonce, now, now.Add(tripEvery)
}

// Measured ends the measurement of a round trip when a Pong arrives. The result "ok" of Measured
// says whether the Pong answers a Ping of a round-trip measurement. The result "least" of Measured
// is the minimum round trip, or 0 until tripFirst Pings are answered.
func (p *Path) Measured(now Time, nonce uint64) (least time.Duration, ok bool) {
	t := p.trip
	if t == nil || t.askedAt == 0 || nonce != t.nonce {
		return 0, false
	}
	if d, known := t.answered(now); known {
		least = d
	}
	return least, true
}

// The method "answered" records that a Ping was answered, and returns the minimum round trip. The
// result "known" of the method "answered" says whether at least tripFirst Pings were answered.
func (t *trip) answered(now Time) (least time.Duration, known bool) {
	d := max(now.Sub(t.askedAt), 1)
	t.askedAt = 0
	if t.answers < tripFirst {
		t.answers++
		t.nextAt = now.Add(tripSoon)
	}
	if now.Sub(t.since) >= tripPeriod {
		t.since, t.least = now, [2]time.Duration{0, t.least[0]}
	}
	if t.least[0] == 0 || d < t.least[0] {
		t.least[0] = d
	}
	d = t.least[0]
	if t.least[1] != 0 {
		d = min(d, t.least[1])
	}
	return d, t.answers == tripFirst
}

// Overruns detects overruns of the receive buffers of two channels. A zero Overruns detects no
// overruns.
type Overruns struct {
	channels [2]fabric.Overrunner
	lookedAt Time
	looking  bool // a query since the latest Rest has set "overruns"
	overruns uint64
	received uint64 // packets received before the latest query
	fewest   uint64 // minimum number of packets between two queries
}

// Init sets the fabric endpoints of the command channel and the data channel, each of which has
// receive buffers for "capacity" packets. Init reports whether the command channel and the data
// channel both count overruns, which is a condition for granting more credits than the receive
// buffer has room for.
func (o *Overruns) Init(command, data fabric.Endpoint, capacity int) bool {
	cmd, ok := command.(fabric.Overrunner)
	dat, both := data.(fabric.Overrunner)
	if !ok || !both {
		return false
	}
	o.channels = [2]fabric.Overrunner{cmd, dat}
	o.fewest = uint64(max(0, min(overrunsLeast, capacity)))
	return true
}

// Rest stops the detection of overruns until the next call of Look. The caller calls Rest while the
// receive buffer has room for all granted credits.
func (o *Overruns) Rest() { o.looking = false }

// Look queries the fabric's overrun counters if a query is due, and reports whether they have
// changed. The argument "received" of Look is the total number of received packets. The result
// "known" of Look says whether Look has compared the counters with those of a previous query, which
// is not the case in the first query after Init or Rest.
func (o *Overruns) Look(now Time, received uint64) (overrun, known bool) {
	if o.channels[0] == nil || !o.due(now, received) {
		return false, false
	}
	overruns := o.channels[0].Overruns() + o.channels[1].Overruns()
	overrun, known = overruns != o.overruns, o.looking
	o.looking, o.lookedAt, o.overruns, o.received = true, now, overruns, received
	return overrun && known, known
}

// The method "due" reports whether a query of the fabric's overrun counters is due. The argument
// "received" of the method "due" is the total number of received packets.
func (o *Overruns) due(now Time, received uint64) bool {
	return !o.looking || now.Sub(o.lookedAt) >= overrunsEvery && received-o.received >= o.fewest
}
