package runner

import (
	"testing"
	"time"

	"gobtl/btl"
)

// The watcher that wakes up for lone messages, again and again after long silences, looks once each
// time and sleeps again: the sleep ends by what has come meanwhile.
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
	before := passes()
	const messages = 50
	send(messages)
	// One of each message. It were two at least of each, if it searched.
	if n := passes() - before; n > 3*messages/2 {
		t.Errorf("%d passes for %d messages", n, messages)
	}
}
