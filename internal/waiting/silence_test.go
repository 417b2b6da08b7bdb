package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// lone makes a policy wait once after other work, for an answer that comes after a pause. The
// results are the spinning time and the number of yields.
func lone(p *Policy, now *mono.Time, pause time.Duration) (spun time.Duration, yields int) {
	*now = now.Add(20 * time.Millisecond)
	p.Begin(*now)
	for spun = 0; spun < pause; spun += us {
		action := p.Empty(now.Add(spun))
		if action == Yield {
			yields++
			action = p.Empty(now.Add(spun))
		}
		if action == Sleep {
			p.Slept(-1, pause-spun, 0)
			break
		}
	}
	*now = now.Add(pause)
	p.Found(*now)
	return spun, yields
}

// TestSpinningTimes checks waits of one length, each after other work. If a spinning time suffices,
// the policy must find it and keep it. Otherwise the policy must try each spinning time rarely.
func TestSpinningTimes(t *testing.T) {
	for _, tc := range []struct {
		pause time.Duration
		spun  time.Duration // for a wait at the end
	}{
		{2 * us, 2 * us},
		{30 * us, 30 * us},
		{wakeFirst + 30*us, wakeFirst + 30*us},
		{longSpin*wakeFirst + us, 0},
		{silence, 0},
	} {
		now := mono.Time(1)
		p := New(Adaptive, 0, &fakeThread{}, now)
		for range 8 {
			p.Late(silence) // at first no spinning time suffices
		}
		for range rareEvery {
			lone(p, &now, tc.pause)
		}
		most, tries := time.Duration(0), 0
		for range rareEvery {
			spun, _ := lone(p, &now, tc.pause)
			if most = max(most, spun); spun > tc.spun {
				tries++
			}
			if spun < tc.spun {
				t.Errorf("waits of %v: spins for %v", tc.pause, spun)
			}
		}
		if tc.spun == 0 && (tries < 1 || tries > len(p.vain) || most != longSpin*wakeFirst) {
			t.Errorf("waits of %v: spins %d times, for at most %v", tc.pause, tries, most)
		}
	}
}

// TestYieldsRarely checks a processor that no other thread needs. The yield before a sleep becomes
// rare, and comes each time again after a yield has helped.
func TestYieldsRarely(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	count := func(n int) (yields int) {
		for range n {
			_, y := lone(p, &now, time.Millisecond)
			yields += y
		}
		return yields
	}
	if n := count(2 * rareEvery); n != rareLeast+2 {
		t.Errorf("yields %d times in %d", n, 2*rareEvery)
	}
	for i := 0; !p.probed; i++ { // until a yield comes and finds work
		if i > rareEvery {
			t.Fatal("never yields again")
		}
		now = now.Add(20 * time.Millisecond)
		p.Begin(now)
		now = now.Add(longSpin * wakeMost)
		if p.Empty(now) != Yield {
			p.Slept(-1, us, 0)
			p.Found(now)
		}
	}
	p.Found(now)
	if !p.shared || p.probes != 0 {
		t.Error("a yield that has helped is forgotten")
	}
}

// TestCalm checks that a thread whose waits were longer than all spinning times sleeps at once,
// until a wait is short.
func TestCalm(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	quiet := func(pause time.Duration) {
		p.Begin(now)
		p.Slept(-1, pause, 0)
		now = now.Add(pause)
		p.Found(now)
	}
	for i := range rareLeast + 1 {
		if p.Calm() {
			t.Fatalf("calm after %d long waits", i)
		}
		quiet(silence)
	}
	if !p.Calm() || p.Empty(now) == Poll {
		t.Error("not calm after long waits")
	}
	if quiet(longSpin * wakeFirst); p.Calm() {
		t.Error("calm after a short wait")
	}
	for _, tc := range []struct {
		mode Mode
		spin time.Duration
		want bool
	}{{Adaptive, us, false}, {Busy, 0, false}, {Event, 0, true}, {Event, us, true}} {
		p = New(tc.mode, tc.spin, &fakeThread{}, now)
		for range 8 {
			quiet(silence)
		}
		if p.Calm() != tc.want {
			t.Errorf("%v, %v: calm is %v", tc.mode, tc.spin, p.Calm())
		}
	}
}
