package reliability

import (
	"errors"
	"math"
	"slices"
	"testing"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
)

// TestStates tries every call in every state of a segment. Calls that are not in the diagram of the
// package must panic.
func TestStates(t *testing.T) {
	t.Parallel()
	const now = mono.Time(1e9)
	const refused = State(9) // the call panics and leaves the state as it is
	prepare := map[string]func(s *Recovery){
		"free":   func(*Recovery) {},
		"queued": func(s *Recovery) { s.Queue(1) },
		"posted": func(s *Recovery) { postAs(s, now, 1, 5, 6, forever) },
		"listed": func(s *Recovery) { postAs(s, 0, 1, 5, 6, 0); expire(s, now) },
		"popped": func(s *Recovery) { postAs(s, 0, 1, 5, 6, 0); expire(s, now); s.PopResend() },
		"freed": func(s *Recovery) {
			postAs(s, 0, 1, 5, 6, 0)
			expire(s, now)
			s.PopResend()
			acked(s, 1)
		},
	}
	columns := []string{"free", "queued", "posted", "listed", "popped", "freed"}
	rows := []struct {
		name string
		call func(s *Recovery)
		want [6]State
	}{
		{
			"Queue", func(s *Recovery) { s.Queue(1) },
			[6]State{Queued, refused, refused, refused, refused, Queued},
		},
		{
			"Unqueue", func(s *Recovery) { s.Unqueue(1) },
			[6]State{refused, Free, refused, refused, refused, refused},
		},
		{
			"Post", func(s *Recovery) { postAs(s, now, 1, 5, 6, forever) },
			[6]State{Posted, Posted, refused, refused, refused, Posted},
		},
		{
			"Repost", func(s *Recovery) { repostAs(s, now, 1, forever) },
			[6]State{refused, refused, refused, refused, Posted, refused},
		},
		{
			"Defer", func(s *Recovery) { s.Defer(1) },
			[6]State{refused, refused, refused, refused, Resend, refused},
		},
		{
			"ResendNow", func(s *Recovery) { resendNow(s, 1) },
			[6]State{Free, Queued, Resend, Resend, Resend, Free},
		},
		{
			"fastRetransmit", func(s *Recovery) { fastRetransmit(s, now, 1) },
			[6]State{Free, Queued, Resend, Resend, Resend, Free},
		},
		{
			"Expire", func(s *Recovery) { expire(s, now+1e9) },
			[6]State{Free, Queued, Resend, Resend, Resend, Free},
		},
		{
			"Acked", func(s *Recovery) { acked(s, 1) },
			[6]State{refused, refused, Free, Free, Free, refused},
		},
	}
	for _, row := range rows {
		for i, column := range columns {
			t.Run(row.name+"/"+column, func(t *testing.T) {
				s := mustSegments(t, 3, quick())
				prepare[column](s)
				before := s.State(1)
				panicked := panics(t, func() { row.call(s) })
				want := row.want[i]
				if panicked != (want == refused) {
					t.Fatalf("panicked: %v", panicked)
				}
				if panicked {
					want = before
				}
				if got := s.State(1); got != want {
					t.Errorf("%v, then %v; want %v", before, got, want)
				}
				if err := s.Check(); err != nil {
					t.Error(err)
				}
				listed := column != "popped" || row.name == "Defer"
				if s.State(1) == Resend && listed != (s.ResendsWaiting() == 1) {
					t.Errorf("%d on the resend list", s.ResendsWaiting())
				}
			})
		}
	}
}

func TestNewRecovery(t *testing.T) {
	t.Parallel()
	for _, count := range []int{0, -1, SegmentsMax + 1, math.MaxInt} {
		if _, err := NewRecovery(count, 1, quick()); !errors.Is(err, ErrRules) {
			t.Errorf("%d segments: %v", count, err)
		}
	}
	for _, peers := range []int{0, hotel.MaxRooms + 1} { // only these rules need timers for peers
		if _, err := NewRecovery(1, peers, Adaptive()); !errors.Is(err, hotel.ErrConfig) {
			t.Errorf("%d peers: %v", peers, err)
		}
	}
	if _, err := NewRecovery(1, 1, Rules{}); !errors.Is(err, ErrRules) {
		t.Errorf("rules of zero: %v", err)
	}
	for state, want := range map[State]string{
		Free: "free", Queued: "queued", Posted: "posted", Resend: "resend",
	} {
		if state.String() != want {
			t.Errorf("state %d is %q", state, state)
		}
	}
}

// TestBackOff measures how long a segment waits after each retransmission.
func TestBackOff(t *testing.T) {
	t.Parallel()
	const ms = time.Millisecond
	cases := []struct {
		name       string
		first, max time.Duration
		limit      time.Duration
		want       []time.Duration // the last wait applies to all further retransmissions
	}{
		{
			"usnic", 100 * ms, 1600 * ms, forever,
			[]time.Duration{100 * ms, 200 * ms, 400 * ms, 800 * ms, 1600 * ms},
		},
		{
			"ceiling between", 100 * ms, 300 * ms, forever,
			[]time.Duration{100 * ms, 200 * ms, 300 * ms},
		},
		{"no back-off", 100 * ms, 100 * ms, forever, []time.Duration{100 * ms}},
		{
			"cut short", 100 * ms, 1600 * ms, 250 * ms,
			[]time.Duration{100 * ms, 200 * ms, 250 * ms},
		},
		{"no wait", 100 * ms, 1600 * ms, 0, []time.Duration{0}},
		{"negative limit", 100 * ms, 1600 * ms, -time.Hour, []time.Duration{0}},
		{"more than sixteen doublings", ms, 1000 * time.Hour, forever, doublings(ms, 1000*time.Hour)},
		{
			"the longest", 40 * time.Hour, math.MaxInt64 / 4, forever,
			doublings(40*time.Hour, math.MaxInt64/4),
		},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			rules := quick()
			rules.ResendTimeout, rules.ResendTimeoutMax = c.first, c.max
			s := mustSegments(t, 1, rules)
			now := mono.Time(1)
			postAs(s, now, 0, 0, 0, c.limit)
			for i := range 300 {
				want := c.want[min(i, len(c.want)-1)]
				if due := now.Add(want); due == mono.Never || due > mono.Never-mono.Time(time.Hour) {
					return // the end of the time axis
				} else if n := expire(s, due-1); n != 0 && want > 0 {
					t.Fatalf("resend %d: expired before %v", i, want)
				}
				now = now.Add(want + tick)
				if n := expire(s, now); n != 1 {
					t.Fatalf("resend %d: not expired after %v", i, want)
				}
				if got := s.Resends(0); got != min(i, 255) {
					t.Fatalf("%d resends counted, want %d", got, i)
				}
				token, cause, ok := s.PopResend()
				if !ok || token != 0 || cause != CauseTimeout {
					t.Fatalf("popped %d, cause %d, %v", token, cause, ok)
				}
				repostAs(s, now, 0, c.limit)
			}
		})
	}
}

// doublings are first, 2 first, 4 first, and so on up to last.
func doublings(first, last time.Duration) (list []time.Duration) {
	for d := first; d < last && d > 0; d *= 2 {
		list = append(list, d)
	}
	return append(list, last)
}

// TestPostForgets checks that a segment that is used again does not inherit the back-off of its
// previous packet.
func TestPostForgets(t *testing.T) {
	t.Parallel()
	s := mustSegments(t, 1, quick())
	postAs(s, 0, 0, 1, 100, 0)
	expire(s, 1e9)
	s.PopResend()
	repostAs(s, 1e9, 0, forever)
	if s.Resends(0) != 1 {
		t.Fatalf("%d resends", s.Resends(0))
	}
	acked(s, 0)
	postAs(s, 2e9, 0, 2, 200, forever)
	if owner, n := s.Owner(0); s.Resends(0) != 0 || owner != 2 || n != 200 {
		t.Errorf("%d resends, sender %d, number %d", s.Resends(0), owner, n)
	}
	if d := s.Deadline().Sub(2e9); d < quick().ResendTimeout || d > quick().ResendTimeout+tick {
		t.Errorf("waits %v", d)
	}
}

// TestDupAckHold checks that the first duplicate ACK retransmits a packet at once. After that,
// duplicate ACKs have no effect on the packet for a while, because the ACKs may have been sent
// before the copy arrived.
func TestDupAckHold(t *testing.T) {
	t.Parallel()
	const hold = 2 * time.Millisecond
	f := newFlight(t, 1<<32-1, 16, 16, 3)
	dupAck := func(now mono.Time) bool {
		_, verdict, resend := onAck(&f.snd, now, 1<<32-2, 16, false, nil)
		if verdict != AckDuplicate {
			t.Fatalf("verdict %d", verdict)
		}
		f.check(t)
		return resend
	}
	repost := func(now mono.Time, want Cause) {
		token, cause, ok := f.segs.PopResend()
		if !ok || token != f.sent[0] || cause != want {
			t.Fatalf("popped segment %d, cause %d, %v", token, cause, ok)
		}
		repostAs(f.segs, now, token, forever)
	}
	if !dupAck(0) {
		t.Fatal("the first duplicate ACK did nothing")
	}
	if dupAck(0) || dupAck(1e9) {
		t.Error("sent again while it waits to be")
	}
	now := mono.Time(5e6)
	repost(now, CauseDupAck)
	for _, d := range []time.Duration{0, 1, hold - 1} {
		if dupAck(now.Add(d)) {
			t.Errorf("sent again %v after the last time", d)
		}
	}
	if !dupAck(now.Add(hold)) {
		t.Errorf("not sent again %v after the last time", hold)
	}
	now = now.Add(hold)
	repost(now, CauseDupAck)
	if f.segs.Resends(f.sent[0]) != 2 {
		t.Errorf("%d resends", f.segs.Resends(f.sent[0]))
	}
	// The hold also applies to a packet that its timer retransmitted.
	f.expire(t, now.Add(time.Second))
	now = now.Add(time.Second)
	for f.segs.ResendsWaiting() > 0 {
		token, _, _ := f.segs.PopResend()
		repostAs(f.segs, now, token, forever)
	}
	if dupAck(now.Add(hold-1)) || !dupAck(now.Add(hold)) {
		t.Error("the hold does not follow a time-out")
	}
	// Duplicate ACKs never affected the other packets.
	if f.segs.State(f.sent[1]) != Posted || f.segs.State(f.sent[2]) != Posted {
		t.Error("a duplicate ACK moved a packet that is not the oldest")
	}
}

// TestResendList checks the order of the list through all calls that change the list.
func TestResendList(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1<<31-2, 16, 16, 8)
	tokens := f.sent
	pop := func(want Token, wantCause Cause) {
		t.Helper()
		token, cause, ok := f.segs.PopResend()
		if !ok || token != want || cause != wantCause {
			t.Fatalf("popped %d, cause %d, %v; want %d, %d", token, cause, ok, want, wantCause)
		}
	}
	if _, _, ok := f.segs.PopResend(); ok {
		t.Fatal("popped from an empty list")
	}
	resendNow(f.segs, tokens[5])
	resendNow(f.segs, tokens[5]) // on the list already
	f.snd.OnAck(0, 1<<31-3, 0, false, nil)
	f.expire(t, 1e9)
	f.check(t)
	if f.segs.ResendsWaiting() != 8 || f.segs.Deadline() != mono.Never {
		t.Fatalf("%d wait, deadline %d", f.segs.ResendsWaiting(), f.segs.Deadline())
	}
	// The order is 5 (refused), 0 (duplicate ACK), and then 1 2 3 4 6 7 in the order of their
	// posts.
	pop(tokens[5], CauseRefused)
	f.segs.Defer(tokens[5]) // to the end, with the same cause
	f.check(t)
	pop(tokens[0], CauseDupAck)
	repostAs(f.segs, 1e9, tokens[0], forever)
	acked(f.segs, tokens[3]) // middle
	acked(f.segs, tokens[1]) // head
	acked(f.segs, tokens[5]) // tail
	if err := f.segs.Check(); err != nil {
		t.Fatal(err)
	}
	resendNow(f.segs, tokens[0])
	for _, want := range []Token{tokens[2], tokens[4], tokens[6], tokens[7]} {
		pop(want, CauseTimeout)
	}
	pop(tokens[0], CauseRefused)
	if _, _, ok := f.segs.PopResend(); ok || f.segs.ResendsWaiting() != 0 || f.segs.InFlight() != 0 {
		t.Error("the list is not empty")
	}
	if err := f.segs.Check(); err != nil {
		t.Error(err)
	}
}

// TestExpire checks that segments expire by their deadlines, not before, and are counted.
func TestExpire(t *testing.T) {
	t.Parallel()
	const step = 4 * mono.Time(tick)
	s := mustSegments(t, 4, quick())
	if s.Deadline() != mono.Never || expire(s, mono.Never) != 0 {
		t.Fatal("a timer runs that nobody started")
	}
	s = mustSegments(t, 4, quick()) // the old segments have seen the end of the time axis
	for i, stay := range []mono.Time{3, 1, 2, 1} {
		postAs(s, 0, Token(i), 0, 0, time.Duration(stay*step))
	}
	for _, c := range []struct {
		at   mono.Time
		want int
	}{{0, 0}, {step - 1, 0}, {step, 2}, {step, 0}, {2*step - 1, 0}, {3 * step, 2}} {
		if n := expire(s, c.at); n != c.want {
			t.Errorf("%d expired at %d, want %d", n, c.at, c.want)
		}
	}
	var order []Token
	for token, cause, ok := s.PopResend(); ok; token, cause, ok = s.PopResend() {
		order = append(order, token)
		if cause != CauseTimeout {
			t.Errorf("cause %d", cause)
		}
	}
	if !slices.Equal(order, []Token{1, 3, 2, 0}) {
		t.Errorf("order %v", order)
	}
}

// TestSegmentsCheck breaks the state in every way that Check looks for.
func TestSegmentsCheck(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(f *flight){
		"posted without a room": func(f *flight) { usnicOf(f.segs).room[f.sent[0]] = 0 },
		"posted in another's room": func(f *flight) {
			room := usnicOf(f.segs).room
			room[f.sent[0]] = room[f.sent[1]]
		},
		"room of a free segment":    func(f *flight) { f.segs.segs[f.sent[0]].state = Free },
		"listed without being so":   func(f *flight) { f.segs.segs[f.sent[4]].state = Free },
		"a member that has no link": func(f *flight) { f.segs.head = f.segs.segs[f.segs.head].next },
		"a loop":                    func(f *flight) { f.segs.segs[f.segs.tail].next = f.segs.head },
		"miscounted":                func(f *flight) { f.segs.count-- },
		"a room nobody lives in": func(f *flight) {
			f.segs.segs[f.sent[0]].state = Free
			f.segs.posted--
		},
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			f := newFlight(t, 0, 16, 16, 6)
			resendNow(f.segs, f.sent[4])
			resendNow(f.segs, f.sent[5])
			f.check(t)
			breakIt(f)
			if f.segs.Check() == nil {
				t.Error("Check found nothing")
			}
		})
	}
}
