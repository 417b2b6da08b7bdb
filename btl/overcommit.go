package btl

import (
	"time"

	"gobtl/fabric"
	"gobtl/frag"
)

// Peers on long paths are granted more than the receive buffer holds, for most of it is on the way
// (reliability/stretch.go). What that takes is here: how long the paths are, and whether the buffer
// was overrun. The round trip is that of a Ping, and the least of several: a peer whose data flows
// one way is measured by nothing else here, and only Pings are answered at once.

// trip is what an endpoint knows of the round trip to its peer, as it is measured by Pings.
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
	// tripNear is a round trip for which nothing is granted beyond what the buffer holds.
	tripNear = time.Millisecond
	// tripFirst is how many Pings must be answered before one counts: when many begin at once the
	// first answers wait for processors and in queues, each for another time, and the path may be
	// short. Until then each follows tripSoon after the answer before it.
	tripFirst = 4
	tripSoon  = 200 * time.Millisecond
	// tripEvery is the time between two Pings later on, tripPeriod that after which an old round
	// trip counts no more: a path may become another one.
	tripEvery  = time.Second
	tripPeriod = 10 * time.Second
	// overrunsEvery is how often the fabric is asked what it has lost.
	overrunsEvery = 10 * time.Millisecond
	// overrunsLeast is how many packets must have come meanwhile, or as many as a channel holds, if
	// that is less: what is lost for want of room was behind so many. So who is woken now and then
	// for a lone one does not ask each time, which takes system calls.
	overrunsLeast = 16
)

// overcommit is the module's part.
type overcommit struct {
	overrunners [2]fabric.Overrunner // the channels, if they count
	measure     *Endpoint            // whose round trip is wanted
	lookedAt    Time
	looking     bool // since when overruns was told
	overruns    uint64
	received    uint64 // packets, when the fabric was asked last
	fewest      uint64 // that may have met an overrun: overrunsLeast, or what a channel holds
}

// openOvercommit finds out whether the fabric counts what makes overcommitting safe.
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

// wantsTrip notes an endpoint whose peer could use more credits than it has.
func (m *Module) wantsTrip(ep *Endpoint) {
	if !ep.near && !ep.counted && m.now >= ep.nextAt && m.credits.Stretches() {
		m.measure = ep
	}
}

// tendOvercommit measures a round trip that is wanted, and looks whether the buffer was overrun.
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

// lookDue says whether to ask the fabric what it has lost, of so many packets received until now.
func (o *overcommit) lookDue(now Time, received uint64) bool {
	return !o.looking || now.Sub(o.lookedAt) >= overrunsEvery && received-o.received >= o.fewest
}

// measured takes the round trip of a Pong, if it is one of the Ping that asked for it.
func (ep *Endpoint) measured(now Time, nonce uint64) bool {
	if ep.askedAt == 0 || nonce != ep.nonce {
		return false
	}
	if least, known := ep.trip.answered(now); known {
		ep.rcv.RoundTrip(least)
	}
	return true
}

// answered notes that a Ping is answered, and returns the least round trip, once there were
// several.
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
