package runner

import (
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/internal/waiting"
)

// becalmed returns a policy that has slept through nothing but long silences until an instant.
func becalmed(t *testing.T, now btl.Time) *waiting.Policy {
	t.Helper()
	const silence, silences = 10 * time.Millisecond, 8
	then := now.Add(-silences * silence)
	p := waiting.New(WaitAdaptive, 0, crowdedThread{}, then)
	for range silences {
		p.Begin(then)
		p.Slept(-1, silence, 0)
		then = then.Add(silence)
		p.Found(then)
	}
	if !p.Calm() {
		t.Fatal("a policy that has slept through long silences is not calm")
	}
	return p
}

// A calm watcher polls once after each wake-up and then sleeps again. A watcher that searches
// instead makes at least two passes for each of the sleeps of a batch, always: one that finds the
// message, and one that finds nothing. A calm watcher makes a second pass only if its first pass
// took longer than the time "napping", which happens often on a slow machine with the race
// detector. One batch with fewer than two passes for each sleep therefore shows that the watcher
// does not search. Each batch begins with a policy that has measured long silences.
func TestRunnerSleepsAtOnceInCalm(t *testing.T) {
	came := make(chan struct{}, 1)
	m := openShm(t, nil)
	mustHandleTag(t, m, 4, func(*btl.Endpoint, btl.Tag, []byte) { came <- struct{}{} })
	to := openRunner(t, m)
	from := openRunner(t, openShm(t, nil))
	ep := connectTo(t, from, to)
	send := func(count int) {
		for range count {
			time.Sleep(5 * time.Millisecond)
			if err := from.SendBuffered(t.Context(), ep, 4, []byte("x")); err != nil {
				t.Fatal(err)
			}
			<-came
		}
	}
	look := func(fn func(m *btl.Module)) {
		t.Helper()
		if err := to.Do(t.Context(), func(m *btl.Module) error { fn(m); return nil }); err != nil {
			t.Fatal(err)
		}
	}
	send(5) // the handshake, and what it leaves, is over
	const messages, batches = 20, 100
	least := ^uint64(0)
	for range batches {
		var before, after uint64
		calm := becalmed(t, to.now())
		look(func(m *btl.Module) { before, to.policies.each[1] = passesOf(m), calm })
		send(messages)
		look(func(m *btl.Module) { after = passesOf(m) })
		if least = min(least, after-before); least < 2*(messages-1) { // the first may need none
			return
		}
	}
	t.Errorf("%d passes for %d messages, in the best of %d batches", least, messages, batches)
}
