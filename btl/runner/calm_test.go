package runner

import (
	"testing"
	"time"

	"gobtl/btl"
)

// The watcher that wakes up for lone messages, again and again after long silences, looks once each
// time and sleeps again: the sleep ends by what has come meanwhile. A watcher that searched would
// make two passes at least for each message, always. One that does not makes more than one when the
// machine takes its processor away, so it has several batches to show that it does not.
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
	passes := func() (n uint64) {
		look := func(m *btl.Module) error { n = passesOf(m); return nil }
		if err := to.Do(t.Context(), look); err != nil {
			t.Fatal(err)
		}
		return n
	}
	send(20)
	const messages, batches = 20, 100
	least := ^uint64(0)
	for range batches {
		before := passes()
		send(messages)
		if least = min(least, passes()-before); least <= 3*messages/2 {
			return
		}
	}
	// Where sleeps end late, or messages come late, the policy may never take silences for what they
	// are. That it does where they are is shown with a given clock, in its own package.
	calm := false
	err := to.Do(t.Context(), func(*btl.Module) error { calm = to.policies[1].Calm(); return nil })
	if err != nil {
		t.Fatal(err)
	}
	if calm {
		t.Errorf("%d passes for %d messages, in the best of %d batches", least, messages, batches)
	}
}
