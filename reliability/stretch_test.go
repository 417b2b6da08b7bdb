package reliability

import (
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
)

// TestStretch checks that a place holds several packets if the round trip is several times drain.
// If the round trip is shorter or unknown, a place holds one packet. If the fabric does not count
// overruns, a place holds one packet.
func TestStretch(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		path time.Duration
		on   bool
		want int
	}{
		{20 * drainLeast, true, 20 * 100},
		{20 * drainLeast, false, 100},
		{drainLeast, true, 100},
		{0, true, 100},
		{2 * packetsPerPlace * drainLeast, true, packetsPerPlace * 100},
	} {
		l := newLapsing(100)
		if tc.on {
			l.pool.Stretch()
		}
		p := l.join(1<<32-50, WindowMax)
		p.rcv.RoundTrip(tc.path)
		got := l.use(t, p, 20)
		if got != tc.want || l.pool.Stretched() != (got > 100) || p.rcv.Booked() != 100 {
			t.Errorf("path of %v: %d credits in %d places, want %d", tc.path, got, p.rcv.Booked(), tc.want)
		}
		if !p.rcv.Wants() {
			t.Errorf("path of %v: wants no more than %d", tc.path, got)
		}
	}
}

// TestOverrunShrinks checks that an overrun halves the credits beyond the buffer, at most once per
// drainEvery. After a while without overruns the credits grow again.
func TestOverrunShrinks(t *testing.T) {
	t.Parallel()
	l := newLapsing(100)
	l.pool.Stretch()
	p := l.join(0, WindowMax)
	p.rcv.RoundTrip(16 * drainLeast)
	for i, want := range []int{1600, 800, 400, 200, 100, 100} {
		if got := l.use(t, p, 20); got != want {
			t.Errorf("after %d overruns: %d credits, want %d", i, got, want)
		}
		l.wait(drainEvery)
		l.pool.Overrun(l.now, true)
		l.pool.Overrun(l.now.Add(drainEvery-1), true) // the same overrun
	}
	for i, want := range []int{100, 200, 400, 800, 1600, 1600} {
		for range 2 {
			l.wait(drainCalm / 2)
			l.pool.Overrun(l.now, false)
		}
		if got := l.use(t, p, 20); i > 0 && got < want/2 {
			t.Errorf("after %d calm times: %d credits, want %d", i, got, want)
		}
	}
	if l.pool.Drain() != drainLeast {
		t.Errorf("drain of %v in the end", l.pool.Drain())
	}
}

// TestStretchModel checks peers on paths of all lengths that use their credits, with some overruns.
// The booked places never exceed the buffer by more than one place for each peer.
func TestStretchModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		pool := NewCredits(rapid.IntRange(1, 2000).Draw(t, "capacity"))
		pool.Stretch()
		rules, now := Usnic(), mono.Time(1)
		var peers []*Receiver
		path := rapid.SampledFrom([]time.Duration{
			0, time.Microsecond, drainLeast, drainLeast + 1, 7 * drainLeast, 300 * drainLeast, time.Hour,
		})
		pick := func(t *rapid.T) *Receiver {
			if len(peers) == 0 {
				t.Skip("nobody there")
			}
			return rapid.SampledFrom(peers).Draw(t, "peer")
		}
		t.Repeat(map[string]func(*rapid.T){
			"join": func(t *rapid.T) {
				r := &Receiver{}
				r.Init(drawFirst(t), 1<<rapid.IntRange(0, 16).Draw(t, "windowShift"))
				r.RoundTrip(path.Draw(t, "path"))
				pool.Join()
				peers = append(peers, r)
			},
			"use": func(t *rapid.T) {
				r := pick(t)
				for range rapid.IntRange(1, 12).Draw(t, "times") {
					if held := r.holds(); held > 0 {
						for range rapid.Uint32Range(1, held).Draw(t, "packets") {
							r.Accept(now, r.Next(), &rules)
						}
					}
					before := r.limit
					lapsed := r.lapsed || now.Sub(r.raisedAt) >= creditLapse
					credit := r.Grant(pool)
					if r.limit.Before(before) && !lapsed || credit == 0 {
						t.Fatalf("limit %d after %d, %d credits", r.limit, before, credit)
					}
				}
			},
			"measure": func(t *rapid.T) { pick(t).RoundTrip(path.Draw(t, "path")) },
			"wait": func(t *rapid.T) {
				now = now.Add(time.Duration(rapid.IntRange(0, 40_000).Draw(t, "us")) * time.Microsecond)
				pool.At(now)
			},
			"overrun": func(t *rapid.T) { pool.Overrun(now, rapid.Bool().Draw(t, "lost")) },
			"leave": func(t *rapid.T) {
				if len(peers) > 0 {
					peers[0].Leave(pool)
					pool.Leave()
					peers = peers[1:]
				}
			},
			"": func(t *rapid.T) {
				if err := pool.Check(); err != nil {
					t.Fatal(err)
				}
				places, more := 0, 0
				for _, r := range peers {
					if err := r.CheckState(); err != nil {
						t.Fatal(err)
					}
					if places += r.Booked(); r.Charged() > max(r.Booked(), 1) {
						more++
					}
				}
				if places != pool.Granted() || pool.Stretched() != (more > 0) {
					t.Fatalf("%d places, %d peers with more; the pool says %d, %v", places, more,
						pool.Granted(), pool.Stretched())
				}
			},
		})
	})
}
