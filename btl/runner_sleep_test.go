package btl

import (
	"testing"
	"time"
)

// A Runner that sleeps owes nobody an ACK, and no timer wakes it for what has arrived: what ends
// its sleep is to be worth it.
func TestRunnerSleepsOwingNothing(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *Module) {
		mustHandleTag(t, m, 3, func(*Endpoint, Tag, []byte) {})
	})
	for range 20 {
		if err := rs[0].Send(t.Context(), ep, 3, []byte("x")); err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Millisecond)
	}
	for i, r := range rs {
		var owed bool
		var left time.Duration
		look := func(m *Module) error {
			m.acknowledgeAll() // as who goes to sleep does
			owed, left = m.acks.list.first != nil, time.Hour
			if d := m.recovery.Deadline(); d != Never {
				left = d.Sub(m.Now())
			}
			return nil
		}
		eventually(t, "all to be acknowledged", func() bool {
			if err := r.Do(t.Context(), look); err != nil {
				t.Fatal(err)
			}
			return left == time.Hour
		})
		if owed {
			t.Errorf("runner %d owes an ACK after acknowledgeAll", i)
		}
	}
}

// A call counts once, however often it drives: the watcher naps while there are many.
func TestRunnerCountsCalls(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *Module) {
		mustHandleTag(t, m, 3, func(*Endpoint, Tag, []byte) {})
	})
	drives := func() (n uint64) {
		look := func(*Module) error { n = rs[0].drives; return nil }
		if err := rs[0].Do(t.Context(), look); err != nil {
			t.Fatal(err)
		}
		return n
	}
	before := drives()
	const calls = 50
	for range calls {
		if err := rs[0].Send(t.Context(), ep, 3, []byte("x")); err != nil {
			t.Fatal(err)
		}
	}
	if n := drives() - before; n > calls+1 {
		t.Errorf("%d calls count as %d", calls, n)
	}
}
