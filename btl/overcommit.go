package btl

import (
	"time"

	"gobtl/fabric"
	"gobtl/frag"
)

// Peers on long paths get credits beyond the receive buffer, as most of their packets are in
// transit (reliability/stretch.go). This file measures the path lengths and detects overruns of the
// buffer. The round trip is the minimum over several Pings: a one-way data flow towards this side
// yields no other samples here, and only Pings are answered at once.

// trip is an endpoint's measurement, by Pings, of the round trip to its peer.
type trip struct {
	beganAt Time  // when the search for the path's size began
	near    bool  // its first answers came so soon that there is no need to measure
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

// overcommit is the module's state of overcommitted credits.
type overcommit struct {
	overrunners [2]fabric.Overrunner // the channels, if they count
	measure     *Endpoint            // whose round trip is wanted
	lookedAt    Time
	looking     bool // since when overruns was told
	overruns    uint64
	received    uint64 // packets, when the fabric was asked last
	fewest      uint64 // that may have met an overrun: overrunsLeast, or what a channel holds
}

// openOvercommit finds out whether the fabric counts overruns, without which overcommitting is
// unsafe.
func (m *Module) openOvercommit() {
	cmd, ok := m.port.Command.Endpoint().(fabric.Overrunner)
	data, both := m.port.Data.Endpoint().(fabric.Overrunner)
	if ok && both && !m.port.Reliable() {
		m.overrunners = [2]fabric.Overrunner{cmd, data}
		m.fewest = uint64(max(0,
			min(overrunsLeast, m.port.Command.Caps().RecvCapacity, m.port.Data.Caps().RecvCapacity)))
		m.credits.Stretch()
	}
}

// wantsTrip requests a round-trip measurement for an endpoint whose peer could use more credits.
func (m *Module) wantsTrip(ep *Endpoint) {
	if !ep.near && !ep.counted && m.now >= ep.nextAt && m.credits.Stretches() {
		m.measure = ep
	}
}

// tendOvercommit measures a requested round trip, and checks whether the buffer was overrun.
func (m *Module) tendOvercommit() {
	if ep := m.measure; ep != nil {
		m.measure = nil
		if ep.state == stateConnected && ep.hs == nil && ep.path.Begun() {
			ep.nonce, ep.askedAt, ep.nextAt = m.random(), m.now, m.now.Add(tripEvery)
			m.sendPing(ep, frag.KindPing, &m.port.Data, ep.nonce, frag.PingBytesMin)
		}
	}
	if !m.credits.Stretched() {
		m.looking = false
		return
	}
	received := m.stats.counters[CntReceived]
	if !m.lookDue(m.now, received) {
		return
	}
	overruns := m.overrunners[0].Overruns() + m.overrunners[1].Overruns()
	if m.looking {
		m.credits.Overrun(m.now, overruns != m.overruns)
	}
	m.looking, m.lookedAt, m.overruns, m.received = true, m.now, overruns, received
}

// lookDue says whether to query the fabric's overruns, after received packets in total.
func (o *overcommit) lookDue(now Time, received uint64) bool {
	return !o.looking || now.Sub(o.lookedAt) >= overrunsEvery && received-o.received >= o.fewest
}

// measured takes the round trip from a Pong, if the Pong answers the measuring Ping.
func (ep *Endpoint) measured(now Time, nonce uint64) bool {
	if ep.askedAt == 0 || nonce != ep.nonce {
		return false
	}
	if least, known := ep.trip.answered(now); known {
		ep.rcv.RoundTrip(least)
	}
	return true
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
