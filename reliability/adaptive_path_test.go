package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestPathState checks the sender's estimates of its path.
func TestPathState(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := newDriven(t, nil)
	if got := a.snd.Path(); got != (PathState{WindowPackets: 32, SlowStart: true}) {
		t.Errorf("at first: %+v", got)
	}
	a.warm(rtt)
	n := a.sent
	window := int(a.policy().cong.window)
	a.send(5, Data)
	want := PathState{
		RoundTrip: rtt, Deviation: a.policy().paths[Data].rttvar, Least: rtt, WindowPackets: window,
		InFlightPackets: 5,
	}
	if got := a.snd.Path(); got != want || got.Deviation > rtt/100 {
		t.Errorf("with five packets in flight: %+v, want %+v", got, want)
	}
	a.after(rtt).ack(n, n+4, n+2, n+4) // three packets have not arrived, but may still arrive
	if got := a.snd.Path().InFlightPackets; got != 3 {
		t.Errorf("%d packets in flight, want 3", got)
	}
	a.after(rtt / 2).expire() // now the three packets are lost
	if got := a.snd.Path().InFlightPackets; got != 0 {
		t.Errorf("%d packets in flight, want none", got)
	}
	wantAgain(t, a, n, n+1, n+3)
	if got := a.snd.Path().InFlightPackets; got != 3 {
		t.Errorf("%d copies in flight, want 3", got)
	}
}

// TestPathStateWithout checks the PathState without a congestion window, which then has the peer's
// window, and without the adaptive profile, which then has no measurements.
func TestPathStateWithout(t *testing.T) {
	a := newDriven(t, func(r *Rules) { r.Congestion, r.WindowPackets = CongestionFixed, 256 })
	a.send(2, Data)
	if got := a.snd.Path(); got != (PathState{WindowPackets: 256, InFlightPackets: 2}) {
		t.Errorf("fixed: %+v", got)
	}
	var s Sender
	s.Init(1, 7, 64)
	s.Grant(10)
	s.Admit(0)
	if got := s.Path(); got != (PathState{WindowPackets: 64, InFlightPackets: 1}) {
		t.Errorf("usnic: %+v", got)
	}
	var counted Sender
	counted.Init(2, 7, 64)
	counted.Unbind()
	counted.Confirm(0, 6, 100)
	counted.Count()
	if got := counted.Path(); got != (PathState{WindowPackets: 100, InFlightPackets: 1}) {
		t.Errorf("counted: %+v", got)
	}
	if n := testing.AllocsPerRun(100, func() { _, _ = a.snd.Path(), s.Path() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

// TestPathRenewsLeast checks that the least round trip is that of the last two spans, because a
// route may become longer.
func TestPathRenewsLeast(t *testing.T) {
	t.Parallel()
	const short, long = time.Millisecond, 3 * time.Millisecond
	var p path
	now := mono.Time(1e9)
	p.sample(now, short)
	for _, c := range []struct {
		after time.Duration
		want  time.Duration
	}{{time.Second, short}, {baseSpan, short}, {time.Second, short}, {baseSpan, long}} {
		now = now.Add(c.after)
		if p.sample(now, long); p.base != c.want {
			t.Errorf("%v after the begin: least round trip %v, want %v", now.Sub(1e9), p.base, c.want)
		}
	}
}

// TestKarn checks that a packet that was sent twice gives no sample, because the ACK does not tell
// which copy arrived.
func TestKarn(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(1, Data)
	a.after(5 * time.Millisecond).expire()
	wantAgain(t, a, n)
	before := a.snd.Path()
	a.after(rtt/100).ack(n+1, n)
	if after := a.snd.Path(); after.RoundTrip != before.RoundTrip || after.Least != before.Least {
		t.Errorf("round trip %v, least %v; before %v, %v", after.RoundTrip, after.Least,
			before.RoundTrip, before.Least)
	}
}
