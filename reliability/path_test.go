package reliability

import (
	"testing"
	"time"
)

// What a sender tells of its path.
func TestPathState(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := newAdaptive(t, nil)
	if got := a.snd.Path(); got != (PathState{WindowPackets: 32, SlowStart: true}) {
		t.Errorf("at first: %+v", got)
	}
	a.warm(rtt)
	n := a.sent
	window := int(a.snd.rec.cong.window)
	a.send(5, Data)
	want := PathState{
		RoundTrip: rtt, Deviation: a.snd.rec.paths[Data].rttvar, Least: rtt, WindowPackets: window,
		InFlightPackets: 5,
	}
	if got := a.snd.Path(); got != want || got.Deviation > rtt/100 {
		t.Errorf("with five packets in flight: %+v, want %+v", got, want)
	}
	a.after(rtt).ack(n, n+4, n+2, n+4) // three have not arrived: that does not mean they are lost
	if got := a.snd.Path().InFlightPackets; got != 3 {
		t.Errorf("%d packets in flight, want 3", got)
	}
	a.after(rtt / 2).expire() // now it does
	if got := a.snd.Path().InFlightPackets; got != 0 {
		t.Errorf("%d packets in flight, want none", got)
	}
	wantAgain(t, a, n, n+1, n+3)
	if got := a.snd.Path().InFlightPackets; got != 3 {
		t.Errorf("%d copies in flight, want 3", got)
	}
}

// Without a congestion window it is the peer's that counts; without the adaptive profile nothing
// is measured.
func TestPathStateWithout(t *testing.T) {
	a := newAdaptive(t, func(r *Rules) { r.Congestion, r.WindowPackets = CongestionFixed, 256 })
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
	if n := testing.AllocsPerRun(100, func() { _, _ = a.snd.Path(), s.Path() }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
