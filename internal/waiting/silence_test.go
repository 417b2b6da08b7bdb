package waiting

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// lone makes a policy search once after a silence, for an answer that comes after a pause. The
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

// TestAfterSilence checks answers that come a wake-up later than spinning can bridge, after each
// silence. The policy must spin for hardly any of these answers, but must spin for answers that
// spinning catches.
func TestAfterSilence(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	spins := 0
	for range 64 {
		if spun, _ := lone(p, &now, wakeFirst+30*us); spun > spinLeast {
			spins++
		}
	}
	if spins < 1 || spins > rareLeast+2 {
		t.Errorf("spins %d of 64 times in vain", spins)
	}
	if p.budget != wakeFirst {
		t.Errorf("of what follows closely nothing is known, and the budget is %v", p.budget)
	}
	for i := range 2 * rareEvery {
		if spun, _ := lone(p, &now, 30*us); spun == 30*us {
			break
		} else if i == 2*rareEvery-1 {
			t.Error("never catches what a little of spinning would")
		}
	}
	for range 10 {
		if spun, _ := lone(p, &now, 30*us); spun != 30*us {
			t.Error("catches it once, and no more")
		}
	}
	for range 10 {
		lone(p, &now, time.Millisecond)
	}
	if spun, _ := lone(p, &now, time.Millisecond); spun > spinLeast {
		t.Errorf("spins for %v, always in vain", spun)
	}
	for range 64 {
		p.Begin(now)
		p.Late(time.Millisecond)
	}
	p.Begin(now.Add(silence))
	if p.Late(50 * us); p.budget != spinLeast || p.first != wakeFirst {
		t.Errorf("another thread finds the first after a silence, and the budgets are %v and %v",
			p.budget, p.first)
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
	if n := count(2 * rareEvery); n < 2*rareLeast || n > 2*rareLeast+2 {
		t.Errorf("yields %d times in %d", n, 2*rareEvery)
	}
	for p.probed = false; !p.probed; { // until a yield comes and finds work
		now = now.Add(20 * time.Millisecond)
		p.Begin(now)
		now = now.Add(wakeMost)
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

// TestCalm checks that a thread that has slept through nothing but silences sleeps at once, until a
// pause is short.
func TestCalm(t *testing.T) {
	now := mono.Time(1)
	p := New(Adaptive, 0, &fakeThread{}, now)
	quiet := func(pause time.Duration) {
		p.Begin(now)
		p.Slept(-1, pause, 0)
		now = now.Add(pause)
		p.Found(now)
	}
	for i := range calmLeast {
		if p.Calm() {
			t.Fatalf("calm after %d silences", i)
		}
		quiet(silence)
	}
	if !p.Calm() {
		t.Error("not calm after silences")
	}
	if quiet(silence - 1); p.Calm() {
		t.Error("calm after a short pause")
	}
	for range calmLeast {
		quiet(silence)
	}
	p.Begin(now)
	if p.Found(now.Add(silence)); p.Calm() {
		t.Error("calm after a pause that was not slept through")
	}
	for _, tc := range []struct {
		mode Mode
		spin time.Duration
		want bool
	}{{Adaptive, us, false}, {Busy, 0, false}, {Event, 0, true}} {
		p = New(tc.mode, tc.spin, &fakeThread{}, now)
		for range calmLeast {
			quiet(silence)
		}
		if p.Calm() != tc.want {
			t.Errorf("%v, %v: calm is %v", tc.mode, tc.spin, p.Calm())
		}
	}
}
