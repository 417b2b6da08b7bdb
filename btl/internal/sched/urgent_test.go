package sched

import "testing"

// Urgent fragments are bounded by their number, and by half of the channel's queue.
func TestUrgent(t *testing.T) {
	t.Parallel()
	var u Urgent
	if u.Take(8, 16) || u.Len() != 0 {
		t.Error("an urgent fragment is sent although half of the queue is full")
	}
	for i := range UrgentMax {
		if !u.Take(7, 16) || u.Len() != i+1 {
			t.Fatalf("urgent fragment %d is refused, %d are counted", i, u.Len())
		}
	}
	if u.Take(0, 16) || u.Len() != UrgentMax {
		t.Errorf("%d urgent fragments, at most %d", u.Len(), UrgentMax)
	}
	u.Give(false)
	if u.Give(true); !u.Take(0, 16) || u.Len() != UrgentMax {
		t.Errorf("%d urgent fragments after one has ended", u.Len())
	}
}
