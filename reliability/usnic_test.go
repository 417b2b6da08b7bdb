package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestRooms checks the hotel of the profile usnic. Each posted segment has a room, for 100 ms from
// the time when the segment was sent. Segments that are acknowledged or on the resend list have no
// room.
func TestRooms(t *testing.T) {
	t.Parallel()
	const count, apart = 8, 5 * time.Millisecond
	segs := mustSegments(t, count, Usnic())
	u := usnicOf(segs)
	var s Sender
	s.Init(1, 1<<32-3, 16)
	join(segs, &s)
	s.Grant(count)
	var due []mono.Time // by Token
	for i := range Token(count) {
		now := mono.Time(time.Second + time.Duration(i)*apart)
		s.Post(now, i, s.Admit(i), Data, forever)
		due = append(due, now.Add(100*time.Millisecond))
	}
	if segs.Timers() != count || u.rooms.Rooms() != count {
		t.Fatalf("%d rooms of %d are let, %d segments in flight", segs.Timers(), u.rooms.Rooms(), count)
	}
	oldest, _ := s.Window()
	s.OnAck(due[0].Add(-1), oldest+1, count, false, nil) // tokens 0 and 1
	for i := range Token(count) {
		guest, ok := u.rooms.Knock(u.room[i])
		if ok != (i >= 2) || ok && guest != i {
			t.Errorf("segment %d: in the room of %d, %v", i, guest, ok)
		}
	}
	for i := Token(2); i < count; i++ {
		left := int(count - i)
		if segs.Expire(due[i] - 1); segs.Timers() != left {
			t.Errorf("%d rooms before the end of stay %d, want %d", segs.Timers(), i, left)
		}
		if segs.Expire(due[i].Add(tick)); segs.Timers() != left-1 {
			t.Errorf("%d rooms after the end of stay %d, want %d", segs.Timers(), i, left-1)
		}
	}
	again, _, _ := segs.PopResend()
	now := due[count-1].Add(time.Second)
	s.Repost(now, again, forever) // for twice as long
	if d := segs.Deadline(); d < now.Add(200*time.Millisecond) || segs.Timers() != 1 {
		t.Errorf("sent again at %d: %d rooms, until %d", now, segs.Timers(), d)
	}
	if s.Abort(nil); segs.Timers() != 0 {
		t.Errorf("%d rooms after Abort", segs.Timers())
	}
	if err := segs.Check(); err != nil {
		t.Error(err)
	}
}
