package btl

import (
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/hotel"
)

// TestTimersOfProfiles looks into the hotel while nothing is answered: by the profile usnic each
// segment in flight has its room of 100 ms, in lossless of 2 s; in adaptive each endpoint has one.
func TestTimersOfProfiles(t *testing.T) {
	for profile, want := range map[string]struct {
		stay time.Duration
		each bool // segment, or else endpoint
	}{
		"usnic": {100 * time.Millisecond, true}, "lossless": {2 * time.Second, true}, "adaptive": {},
	} {
		t.Run(profile, func(t *testing.T) {
			cfg := smallConfig()
			cfg.PeerTimeout, cfg.Profile = time.Minute, profile
			l := newLab(t, mem.Config{}, 3, cfg)
			m := l.mods[0]
			for _, other := range l.mods[1:] {
				other.Handle(1, func(*Endpoint, Tag, []byte) {})
			}
			first, second := l.connect(0, 1), l.connect(0, 2)
			l.settle(10 * time.Second)
			if n := m.all.Recovery.Timers(); n != 0 {
				t.Fatalf("%d timers of an idle module", n)
			}
			l.net.SetFilter(func(_, _, _ []byte) mem.Verdict { return mem.Drop })
			l.step(time.Microsecond)
			began := l.now
			sendOrFail(t, first, 1, make([]byte, 10_000))
			sendOrFail(t, second, 1, make([]byte, 10))
			for range 4 {
				l.step(time.Microsecond)
			}
			packets := inFlight(m)
			if packets < 5 || m.all.Recovery.ResendsWaiting() != 0 {
				t.Fatalf("%d packets in flight, %d to be sent again", packets, m.all.Recovery.ResendsWaiting())
			}
			if !want.each {
				if n := m.all.Recovery.Timers(); n != 2 {
					t.Errorf("%d timers of 2 endpoints with packets in flight", n)
				}
				return
			}
			if n := m.all.Recovery.Timers(); n != packets {
				t.Errorf("%d timers, %d packets in flight", n, packets)
			}
			due := began.Add(want.stay)
			if d := m.all.Recovery.Deadline(); d < due || d > l.now.Add(want.stay+hotel.DefaultTickNs) {
				t.Errorf("the first stay ends at %d, began at %d", d, began)
			}
			l.calm()
			l.until("acknowledged", 10*time.Millisecond, 10*time.Second, func() bool {
				return inFlight(m) == 0
			})
			if n := m.all.Recovery.Timers(); n != 0 {
				t.Errorf("%d timers when everything is acknowledged", n)
			}
		})
	}
}
