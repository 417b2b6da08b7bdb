package reliability

import (
	"slices"
	"testing"

	"gobtl/internal/seq"
)

// TestOnAck lists the effects of every kind of ACK on a window of five packets with credit for
// eight. The acknowledged number is given as its distance from the oldest packet in flight.
func TestOnAck(t *testing.T) {
	t.Parallel()
	const inFlight, credits, window = 5, 8, 16
	cases := []struct {
		name    string
		ack     int64
		credit  uint16
		dup     bool
		verdict AckVerdict
		freed   int
		resend  bool
		room    int
	}{
		{"gap at the peer", -1, 8, false, AckDuplicate, 0, true, 3},
		{"gap, fewer credits than before", -1, 0, false, AckDuplicate, 0, true, 3},
		{"gap, more credits", -1, 9, false, AckIdle, 0, false, 4},
		{"answer to a duplicate", -1, 8, true, AckIdle, 0, false, 3},
		{"answer to a duplicate, more credits", -1, 11, true, AckIdle, 0, false, 6},
		{"all credits there are", -1, 65535, false, AckIdle, 0, false, 11},
		{"the oldest", 0, 8, false, AckNew, 1, false, 4},
		{"the oldest, as answer to a duplicate", 0, 8, true, AckNew, 1, false, 4},
		{"the oldest, limit as before", 0, 7, false, AckNew, 1, false, 3},
		{"the oldest, limit never retreats", 0, 0, false, AckNew, 1, false, 3},
		{"some", 2, 8, false, AckNew, 3, false, 6},
		{"all but the last", 3, 8, false, AckNew, 4, false, 7},
		{"all", 4, 8, false, AckNew, 5, false, 8},
		{"all, window smaller than the credits", 4, 65535, false, AckNew, 5, false, 16},
		{"all, no credits left", 4, 0, false, AckNew, 5, false, 3},
		{"next to send", 5, 65535, false, AckBogus, 0, false, 3},
		{"beyond", 6, 65535, false, AckBogus, 0, false, 3},
		{"window beyond", 5 + window, 65535, false, AckBogus, 0, false, 3},
		{"far beyond", 1<<31 - 2, 65535, false, AckBogus, 0, false, 3},
		{"half-way from the oldest", 1<<31 - 1, 65535, false, AckBogus, 0, false, 3},
		{"farthest beyond", 1<<31 + 4, 65535, false, AckBogus, 0, false, 3},
		{"farthest behind", -1<<31 + 5, 65535, false, AckOld, 0, false, 3},
		{"a window behind", -window, 65535, false, AckOld, 0, false, 3},
		{"overtaken", -2, 65535, false, AckOld, 0, false, 3},
		{"overtaken, as answer to a duplicate", -2, 65535, true, AckOld, 0, false, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			eachStart(t, func(t *testing.T, first seq.Num) {
				f := newFlight(t, first, window, credits, inFlight)
				ack := first + seq.Num(c.ack)
				plausible := f.snd.Plausible(ack)
				const before = Token(99)
				done, verdict, resend := onAck(&f.snd, 0, ack, c.credit, c.dup, []Token{before})
				if verdict != c.verdict || resend != c.resend {
					t.Errorf("verdict %d, resend %v; want %d, %v", verdict, resend, c.verdict, c.resend)
				}
				if plausible == (verdict == AckBogus) {
					t.Errorf("plausible %v, verdict %d", plausible, verdict)
				}
				if want := append([]Token{before}, f.sent[:c.freed]...); !slices.Equal(done, want) {
					t.Errorf("done %v, want %v", done, want)
				}
				for i, token := range f.sent {
					want := Posted
					if i < c.freed {
						want = Free
					} else if i == 0 && c.resend {
						want = Resend
					}
					if got := f.segs.State(token); got != want {
						t.Errorf("segment of packet %d is %v, want %v", i, got, want)
					}
				}
				if got := f.snd.Room(); got != c.room || f.snd.Open() != (c.room > 0) {
					t.Errorf("room for %d, open %v; want room for %d", got, f.snd.Open(), c.room)
				}
				f.check(t)
			})
		})
	}
}

// TestOnAckIdle calls OnAck with nothing in flight. No ACK may then cause a retransmission.
func TestOnAckIdle(t *testing.T) {
	t.Parallel()
	cases := []struct {
		ack     int64
		credit  uint16
		verdict AckVerdict
		room    int
	}{
		{-1, 3, AckIdle, 3},
		{-1, 4, AckIdle, 4},
		{0, 9, AckBogus, 3},
		{-2, 9, AckOld, 3},
		{1<<31 - 1, 9, AckBogus, 3},
		{-1 << 31, 9, AckOld, 3},
	}
	for _, c := range cases {
		eachStart(t, func(t *testing.T, first seq.Num) {
			f := newFlight(t, first, 16, 3, 0)
			done, verdict, resend := onAck(&f.snd, 0, first+seq.Num(c.ack), c.credit, false, nil)
			if len(done) > 0 || verdict != c.verdict || resend || f.snd.Room() != c.room {
				t.Errorf("ACK %d: freed %d, verdict %d, resend %v, room %d; want verdict %d, room %d",
					c.ack, len(done), verdict, resend, f.snd.Room(), c.verdict, c.room)
			}
		})
	}
}

// TestOnAckStates acknowledges packets in every state of a packet in flight.
func TestOnAckStates(t *testing.T) {
	t.Parallel()
	f := newFlight(t, 1<<32-2, 16, 16, 5)
	f.expire(t, 1e9)
	reposted, _, _ := f.segs.PopResend()
	repostAs(f.segs, 1e9, reposted, forever)
	popped, _, _ := f.segs.PopResend()
	f.check2(t, 1) // four segments wait, one of them popped
	done, verdict := f.snd.OnAck(1e9, 1, 16, false, nil)
	if verdict != AckNew || !slices.Equal(done, f.sent[:4]) {
		t.Fatalf("freed %v, verdict %d", done, verdict)
	}
	for _, token := range f.sent[:4] {
		if s := f.segs.State(token); s != Free {
			t.Errorf("segment %d is %v", token, s)
		}
	}
	f.check(t)
	// The caller detects that the popped segment was acknowledged.
	if !panics(t, func() { repostAs(f.segs, 1e9, popped, forever) }) {
		t.Error("a free segment was reposted")
	}
	if !panics(t, func() { f.segs.Defer(popped) }) {
		t.Error("a free segment was deferred")
	}
	last, cause, ok := f.segs.PopResend()
	if !ok || last != f.sent[4] || cause != CauseTimeout || f.segs.ResendsWaiting() != 0 {
		t.Errorf("popped %d %d %v", last, cause, ok)
	}
}

// check2 is check while the caller holds popped segments.
func (f *flight) check2(t failer, popped int) {
	t.Helper()
	if err := f.snd.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if err := f.segs.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if in, timed := f.snd.InFlight(), f.segs.InFlight(); in != timed+popped {
		t.Fatalf("%d packets in the window, %d timed or listed, %d popped", in, timed, popped)
	}
}

// TestWindowEdges fills windows and credits of all sizes to the last packet and closes them.
func TestWindowEdges(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		for _, window := range []int{1, 2, 4, 8, 16, 64} {
			for _, credit := range []int{0, 1, 2, 7, 8, 9, 15, 16, 17, 63, 64, 65, 65535} {
				size := min(window, credit)
				segs := mustSegments(t, window, quick())
				var s Sender
				s.Init(1, first, window)
				join(segs, &s)
				if s.Open() || s.Room() != 0 {
					t.Fatalf("open before any credit: room %d", s.Room())
				}
				s.Grant(uint16(credit))
				for i := range size {
					if !s.Open() || s.Room() != size-i || s.InFlight() != i {
						t.Fatalf("window %d, credit %d, %d in flight: open %v, room %d", window, credit, i,
							s.Open(), s.Room())
					}
					postAs(segs, 0, Token(i), 1, s.Admit(Token(i)), forever)
				}
				if s.Open() || s.Room() != 0 {
					t.Fatalf("window %d, credit %d: open with %d in flight", window, credit, size)
				}
				if !panics(t, func() { s.Admit(0) }) {
					t.Fatalf("window %d, credit %d: packet %d admitted", window, credit, size)
				}
				oldest, next := s.Window()
				if oldest != first || next != first.Add(uint32(size)) {
					t.Fatalf("window [%d, %d)", oldest, next)
				}
				for i := range size {
					if token, ok := s.Token(first.Add(uint32(i))); !ok || token != Token(i) {
						t.Fatalf("number %d is segment %d, %v", i, token, ok)
					}
				}
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
			}
		}
	})
}

// TestRingGrows moves a window across the wrap while its ring doubles. Every number must keep its
// segment.
func TestRingGrows(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		const window = 64
		segs := mustSegments(t, window, quick())
		var s Sender
		s.Init(1, first-500, window)
		join(segs, &s)
		var free []Token
		for i := range window {
			free = append(free, Token(i))
		}
		for target := 1; target <= window; target++ {
			_, next := s.Window()
			s.OnAck(0, next-1, 65535, false, nil)
			for range 20 { // keeps target packets in flight while the window moves
				for s.InFlight() < target {
					token := free[0]
					free = free[1:]
					postAs(segs, 0, token, 1, s.Admit(token), forever)
				}
				if err := s.Check(); err != nil {
					t.Fatalf("%d in flight: %v", target, err)
				}
				oldest, _ := s.Window()
				done, _ := s.OnAck(0, oldest, 65535, false, nil)
				free = append(free, done...)
			}
			oldest, next := s.Window()
			done, _ := s.OnAck(0, next-1, 65535, false, nil)
			if len(done) != int(next-oldest) {
				t.Fatalf("%d of %d freed", len(done), next-oldest)
			}
			free = append(free, done...)
		}
	})
}

func TestPlausible(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		f := newFlight(t, first, 16, 16, 5)
		for distance, want := range map[int64]bool{
			-1 << 31: false, -1<<31 + 4: false, -1<<31 + 5: true, -4096: true, -2: true, -1: true,
			0: true, 4: true, 5: false, 6: false, 4096: false, 1<<31 - 1: false,
		} {
			if got := f.snd.Plausible(first + seq.Num(distance)); got != want {
				t.Errorf("ACK of oldest%+d plausible: %v", distance, got)
			}
		}
	})
}

func TestSenderToken(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		f := newFlight(t, first, 16, 16, 5)
		for i := int64(-3); i < 9; i++ {
			token, ok := f.snd.Token(first + seq.Num(i))
			if inside := i >= 0 && i < 5; ok != inside || inside && token != f.sent[i] {
				t.Errorf("number oldest%+d: segment %d, %v", i, token, ok)
			}
		}
		for _, far := range []int64{1<<31 - 1, 1 << 31, -1<<31 + 1, 5 + 16, -16} {
			if _, ok := f.snd.Token(first + seq.Num(far)); ok {
				t.Errorf("number oldest%+d is in flight", far)
			}
		}
	})
}

func TestSenderGrant(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		var s Sender
		s.Init(1, first, WindowDefault)
		highest := 0
		for _, credit := range []int{0, 4, 2, 0, 5, 1} {
			s.Grant(uint16(credit))
			highest = max(highest, credit)
			if s.Room() != highest {
				t.Errorf("room for %d after a grant of %d, want %d", s.Room(), credit, highest)
			}
		}
		s.Grant(65535)
		if s.Room() != WindowDefault {
			t.Errorf("room for %d", s.Room())
		}
	})
}

// TestAbort checks that all segments in flight become free, whatever their state is. The window
// stays closed until the sender is initialised again.
func TestAbort(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		f := newFlight(t, first, 16, 16, 6)
		for _, token := range f.sent[1:5] {
			resendNow(f.segs, token)
		}
		f.segs.PopResend()
		done := f.snd.Abort([]Token{99})
		if !slices.Equal(done[1:], f.sent) || done[0] != 99 {
			t.Errorf("done %v, want %v", done, f.sent)
		}
		if f.snd.ring != nil {
			t.Error("the ring of a peer that is gone is kept")
		}
		if f.snd.InFlight() != 0 || f.snd.Open() || f.segs.InFlight() != 0 ||
			f.segs.ResendsWaiting() != 0 {
			t.Errorf("after Abort %d in flight, open %v", f.snd.InFlight(), f.snd.Open())
		}
		f.check(t)
		if _, verdict := f.snd.OnAck(0, first+6, 9, false, nil); verdict != AckBogus {
			t.Errorf("ACK beyond: verdict %d", verdict)
		}
		if again := f.snd.Abort(nil); len(again) != 0 {
			t.Errorf("second Abort freed %v", again)
		}
		// A late ACK of the last packet with credits opens the window again, with an empty ring.
		f.snd.OnAck(0, first+5, 1, false, nil)
		n := f.snd.Admit(3)
		postAs(f.segs, 0, 3, f.snd.Number(), n, forever)
		if n != first+6 || f.snd.Open() {
			t.Errorf("number %d after Abort, open %v", n, f.snd.Open())
		}
		f.check(t)
	})
}

// TestSenderCheck breaks the window in every way that Check looks for.
func TestSenderCheck(t *testing.T) {
	t.Parallel()
	breaks := map[string]func(f *flight){
		"window overrun":       func(f *flight) { f.snd.window = 4 },
		"window turned over":   func(f *flight) { f.snd.oldest = f.snd.next + 1 },
		"segment of another":   func(f *flight) { f.segs.segs[f.sent[2]].owner = 8 },
		"wrong number":         func(f *flight) { f.segs.segs[f.sent[2]].seq++ },
		"freed before its ACK": func(f *flight) { acked(f.segs, f.sent[4]) },
		"two numbers, one segment": func(f *flight) {
			f.snd.ring[uint32(f.snd.oldest)&7] = f.sent[1]
		},
	}
	for name, breakIt := range breaks {
		t.Run(name, func(t *testing.T) {
			f := newFlight(t, 1<<32-2, 16, 16, 5)
			breakIt(f)
			if f.snd.Check() == nil {
				t.Error("Check found nothing")
			}
		})
	}
}
