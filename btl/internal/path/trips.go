package path

import (
	"time"

	"gobtl/fabric"
)

// Peers on long paths get credits beyond the receive buffer, as most of their packets are in
// transit (reliability/stretch.go). This file measures the path lengths and detects overruns of the
// buffer. The round trip is the minimum over several Pings: a one-way data flow towards this side
// yields no other samples here, and only Pings are answered at once.

// trip is the measurement, by Pings, of the round trip to a peer.
type trip struct {
	answers int32 // Pongs that have come, up to tripFirst
	nonce   uint64
	askedAt Time             // the latest Ping, of that nonce; 0: it is answered
	nextAt  Time             // when the next one may be
	least   [2]time.Duration // of this period, and of the one before; 0: none
	since   Time             // when this one began
}

const (
	// tripNear is the round trip below which no credits beyond the buffer are granted.
	tripNear = time.Millisecond
	// tripFirst is the number of answered Pings before a round trip counts: when many endpoints
	// start at once, the first answers wait in queues and for CPUs, even on a short path. Until
	// then a Ping is sent tripSoon after the previous answer.
	tripFirst = 4
	tripSoon  = 200 * time.Millisecond
	// tripEvery is the later interval between two Pings, tripPeriod the age at which a round trip
	// expires, as the path may have changed.
	tripEvery  = time.Second
	tripPeriod = 10 * time.Second
	// overrunsEvery is the interval of queries of the fabric's overrun counters.
	overrunsEvery = 10 * time.Millisecond
	// overrunsLeast is the number of packets between two queries, or the capacity of a channel if
	// less: an overrun needs as many packets. So a module that wakes for a lone packet makes no
	// query, which takes system calls.
	overrunsLeast = 16
)

// MayMeasure says whether a round trip to the peer may be measured now.
func (p *Path) MayMeasure(now Time) bool {
	return !p.near && (p.trip == nil || now >= p.trip.nextAt)
}

// Measure notes that a Ping with a nonce is sent to measure the round trip.
func (p *Path) Measure(now Time, nonce uint64) {
	if p.trip == nil {
		p.trip = new(trip)
	}
	p.trip.nonce, p.trip.askedAt, p.trip.nextAt = nonce, now, now.Add(tripEvery)
}

// Measured takes the round trip from a Pong. False means that the Pong answers no Ping of Measure.
// Least is the least round trip, 0 until several are known.
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

// answered notes that a Ping is answered, and returns the least round trip once several are known.
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

// Overruns detects overruns of the receive buffers of two channels. The zero value detects none.
type Overruns struct {
	channels [2]fabric.Overrunner
	lookedAt Time
	looking  bool // since when overruns was told
	overruns uint64
	received uint64 // packets, when the fabric was asked last
	fewest   uint64 // that may have met an overrun: overrunsLeast, or what a channel holds
}

// Init begins with two channels that hold capacity packets. False means that not both of them count
// overruns, without which overcommitting is unsafe.
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

// Rest ends the looking until the next Look: nothing is overcommitted.
func (o *Overruns) Rest() { o.looking = false }

// Look asks the fabric for overruns if that is due, after received packets in all. Known says that
// it is known whether there was any since the last look.
func (o *Overruns) Look(now Time, received uint64) (overrun, known bool) {
	if !o.due(now, received) {
		return false, false
	}
	overruns := o.channels[0].Overruns() + o.channels[1].Overruns()
	overrun, known = overruns != o.overruns, o.looking
	o.looking, o.lookedAt, o.overruns, o.received = true, now, overruns, received
	return overrun && known, known
}

// due says whether to query the fabric's overruns, after received packets in total.
func (o *Overruns) due(now Time, received uint64) bool {
	return !o.looking || now.Sub(o.lookedAt) >= overrunsEvery && received-o.received >= o.fewest
}
