package reliability

import (
	"reflect"
	"slices"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// TestPostRun checks that a run has the same effects as its packets one by one.
func TestPostRun(t *testing.T) {
	const count = 7
	var after [2]struct {
		segs *Recovery
		snd  Sender
	}
	for way := range after {
		g, err := NewRecovery(16, 1, Adaptive())
		if err != nil {
			t.Fatal(err)
		}
		s := &after[way].snd
		s.Init(0, wrapsSoon, 16)
		g.Join(s, 50*time.Microsecond, true)
		s.Grant(16)
		now := mono.Time(1000)
		var run []Token
		first := s.next
		for i := range Token(count) {
			n := s.Admit(count - i)
			if way == 0 {
				s.Post(now, count-i, n, Data, time.Second)
			} else {
				run = append(run, count-i)
			}
		}
		if way == 1 {
			s.PostRun(now, run, first, Data, time.Second)
		}
		if err := s.Check(); err != nil {
			t.Error(err)
		}
		if err := g.Check(); err != nil {
			t.Error(err)
		}
		after[way].segs = g
	}
	if a, b := after[0].segs.segs, after[1].segs.segs; !reflect.DeepEqual(a, b) {
		t.Errorf("one by one %+v\nat once %+v", a, b)
	}
	if a, b := after[0].snd.policy, after[1].snd.policy; !reflect.DeepEqual(a, b) {
		t.Errorf("one by one %+v\nat once %+v", a, b)
	}
	if a, b := after[0].segs.InFlight(), after[1].segs.InFlight(); a != count || b != count {
		t.Errorf("%d and %d in flight, not %d", a, b, count)
	}
}

// wrapsSoon is a first number whose run wraps.
const wrapsSoon = ^seq.Num(2)

// acceptedBefore describes the packets that a receiver has accepted before a run, and its credits.
type acceptedBefore struct {
	credits   int  // credits of the pool; 0: none were granted
	inOrder   int  // packets since the last ACK
	gap       bool // a gap opened, and closed again
	repeated  bool
	selective bool
	asked     time.Duration // when an ACK was requested
}

// receive returns a receiver in the state that before describes, and its credits.
func (b acceptedBefore) receive(first seq.Num, window int, now mono.Time, rules *Rules,
) (*Receiver, *Credits) {
	r, c := &Receiver{}, NewCredits(max(1, b.credits))
	r.Init(first, window)
	r.Selective = b.selective
	c.Join()
	if b.credits > 0 {
		r.TakeAck(c)
	}
	if b.gap {
		r.Accept(now-500, r.Next()+1, rules)
		r.Accept(now-400, r.Next(), rules)
		r.TakeAck(c)
	}
	for range b.inOrder {
		r.Accept(now-300, r.Next(), rules)
	}
	if b.repeated {
		r.Repeated(now - 200)
	}
	if b.asked > 0 {
		r.AskAck(now, b.asked)
	}
	return r, c
}

// TestAcceptAckDue checks the reasons for which an ACK is due immediately after several packets.
func TestAcceptAckDue(t *testing.T) {
	const now = mono.Time(100_000)
	for _, c := range []struct {
		about   string
		credits int
		every   int
		count   uint32
		atOnce  bool
	}{
		{"a run too short for that", 4000, 8, 7, false},
		{"as many as an ACK covers", 4000, 8, 8, true},
		{"more than an ACK covers", 4000, 8, 9, true},
		// A newcomer has a quarter of the pool.
		{"a quarter of the credits, less 1", 80, 1000, 4, false},
		{"a quarter of the credits", 80, 1000, 5, true},
		{"all credits", 4000, 1000, firstCredits, true},
		{"more than all credits", 4000, 1000, firstCredits + 1, true},
	} {
		t.Run(c.about, func(t *testing.T) {
			rules := quick()
			rules.AckEvery = c.every
			r, _ := acceptedBefore{credits: c.credits}.receive(wrapsSoon, 64, now, &rules)
			for range c.count {
				r.Accept(now, r.Next(), &rules)
			}
			want := now.Add(rules.AckDelay)
			if c.atOnce {
				want = now
			}
			if r.AckDue() != want {
				t.Errorf("%d of %d credits: an ACK is due at %d, want %d", c.count, r.Charged(), r.AckDue(),
					want)
			}
		})
	}
}

// admitTo gives a sender count segments, one by one or as runs of at most run.
func admitTo(s *Sender, count, run int) (numbers []seq.Num) {
	var tokens []Token
	for i := range Token(count) {
		tokens = append(tokens, 5000-i)
	}
	if run == 0 {
		for _, t := range tokens {
			numbers = append(numbers, s.Admit(t))
		}
		return numbers
	}
	for part := range slices.Chunk(tokens, run) {
		first := s.AdmitRun(part)
		for i := range part {
			numbers = append(numbers, first.Add(uint32(i)))
		}
	}
	return numbers
}

// TestAdmitRun checks that a run has the same effects as its packets one by one, however often the
// ring grows for the run, and wherever in the ring the run begins.
func TestAdmitRun(t *testing.T) {
	const window = 256
	eachStart(t, func(t *testing.T, first seq.Num) {
		for _, before := range []int{0, 1, 5, 7, 8, 9, 63} { // in flight
			for _, gone := range []int{0, 1, before / 2, before} { // acknowledged of these
				for _, run := range []int{1, 2, 7, 8, 9, 64, 65, 130, window - before + min(gone, before)} {
					gone = min(gone, before)
					var after [2]Sender
					var numbers [2][]seq.Num
					for way := range after {
						s := &after[way]
						s.Init(3, first, window)
						s.Grant(4095)
						admitTo(s, before, 0)
						s.oldest = s.oldest.Add(uint32(gone)) // as OnAck does
						s.updateSendLimit()
						if s.Room() < run {
							t.Fatalf("room for %d of %d", s.Room(), run)
						}
						numbers[way] = admitTo(s, run, way*run)
					}
					if !reflect.DeepEqual(after[0], after[1]) || !slices.Equal(numbers[0], numbers[1]) {
						t.Fatalf("%d behind %d, of which %d are gone:\none by one %+v\nat once    %+v", run,
							before, gone, after[0], after[1])
					}
				}
			}
		}
	})
}

// TestAdmitRunAdaptive checks that packets admitted and posted as runs are in flight like single
// packets.
func TestAdmitRunAdaptive(t *testing.T) {
	const count = 40
	var after [2]flight
	for way := range after {
		f := &after[way]
		g, err := NewRecovery(64, 1, Adaptive())
		if err != nil {
			t.Fatal(err)
		}
		f.segs = g
		f.snd.Init(0, wrapsSoon, 64)
		g.Join(&f.snd, 50*time.Microsecond, true)
		f.snd.Grant(64)
		for sent := 0; sent < count; {
			n := min(count-sent, f.snd.Room(), 7)
			var run []Token
			for i := range n {
				run = append(run, Token(sent+i))
			}
			first := f.snd.next
			if way == 1 {
				first = f.snd.AdmitRun(run)
			}
			for _, token := range run[:n*(1-way)] {
				f.snd.Admit(token)
			}
			f.snd.PostRun(1000, run, first, Data, time.Second)
			if sent += n; n == 0 || f.snd.Room() == 0 {
				break
			}
		}
		f.check(t)
	}
	if a, b := &after[0].snd, &after[1].snd; !reflect.DeepEqual(a.ring, b.ring) || a.next != b.next ||
		a.sendLimit != b.sendLimit || !reflect.DeepEqual(a.policy, b.policy) || a.InFlight() < 2 {
		t.Errorf("one by one %+v\nat once    %+v", *a, *b)
	}
}

// TestAdmitRunRefused checks that no packet of a run is admitted if the window has no room for the
// whole run.
func TestAdmitRunRefused(t *testing.T) {
	eachStart(t, func(t *testing.T, first seq.Num) {
		for _, c := range []struct{ window, credit, before int }{
			{16, 4, 0}, {16, 100, 0}, {16, 100, 16}, {64, 20, 13}, {64, 64, 63}, {64, 1, 1},
		} {
			var s Sender
			s.Init(3, first, c.window)
			s.Grant(uint16(c.credit))
			admitTo(&s, c.before, 0)
			room := s.Room()
			if want := min(c.window, c.credit) - c.before; room != want {
				t.Fatalf("room for %d, want %d", room, want)
			}
			before := s
			before.ring = slices.Clone(s.ring)
			if !panics(t, func() { s.AdmitRun(make([]Token, room+1)) }) {
				t.Errorf("%d admitted where there is room for %d", room+1, room)
			}
			if !reflect.DeepEqual(s, before) {
				t.Errorf("a refused run has left something behind: %+v, was %+v", s, before)
			}
			if room > 0 && s.AdmitRun(make([]Token, room)) != before.next {
				t.Errorf("not the next number")
			}
			if s.Room() != 0 || !panics(t, func() { s.AdmitRun(make([]Token, 1)) }) {
				t.Errorf("room for %d behind the last", s.Room())
			}
		}
	})
}

// TestRunsAllocateNothing checks that neither AdmitRun nor PostRun allocates memory, after the ring
// has grown.
func TestRunsAllocateNothing(t *testing.T) {
	var s Sender
	var r Receiver
	rules := quick()
	s.Init(3, wrapsSoon, 64)
	s.Grant(64)
	r.Init(wrapsSoon, 64)
	run := make([]Token, 64)
	op := func() {
		s.AdmitRun(run)
		for range run {
			r.Accept(1, r.Next(), &rules)
		}
		s.oldest = s.next // as OnAck does
		s.Grant(64)
	}
	op()
	if n := testing.AllocsPerRun(100, op); n != 0 || r.Next() != s.next {
		t.Errorf("%v allocations, next %d and %d", n, r.Next(), s.next)
	}
}
