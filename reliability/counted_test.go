package reliability

import (
	"testing"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// TestCountWraps checks that sender and receiver count the same numbers across the wrap, where zero
// is skipped.
func TestCountWraps(t *testing.T) {
	for _, first := range []seq.Num{0, 1, 5, 1<<31 - 2, 1<<32 - 3, 1<<32 - 1} {
		var s Sender
		var r Receiver
		s.Init(0, first, 64)
		r.Init(first, 64)
		c := NewCredits(100)
		c.Join()
		for i := range 10 {
			n, want := s.Count(), r.Expected()
			if n != want || n == 0 {
				t.Fatalf("first %d: packet %d has number %d, expected %d", first, i, n, want)
			}
			r.Count(1)
			if i%3 == 2 {
				ack, credit, _ := r.TakeAck(c)
				if ack != n || !s.Plausible(ack) || !s.Confirm(0, ack, credit) || s.InFlight() != 0 {
					t.Fatalf("first %d: number %d confirmed as %d, %d not confirmed", first, n, ack,
						s.InFlight())
				}
				if s.Confirm(0, ack, credit) || !s.Open() {
					t.Fatalf("first %d: confirmed twice, or closed", first)
				}
			}
		}
		if err := r.CheckState(); err != nil {
			t.Fatal(err)
		}
	}
}

// TestCountAcksForCredits checks that an ACK is due when a quarter of the credits is used, and not
// before.
func TestCountAcksForCredits(t *testing.T) {
	var r Receiver
	r.Init(1, 64)
	c := NewCredits(1000)
	c.Join()
	_, credit, _ := r.TakeAck(c)
	for i := 1; i <= int(credit)/4; i++ {
		if r.AckDue() != mono.Never {
			t.Fatalf("due after %d of %d credits", i-1, credit)
		}
		r.Count(7)
	}
	if r.AckDue() != 7 {
		t.Fatalf("not due after %d of %d credits", credit/4, credit)
	}
	var s Sender
	s.Init(0, 1, 64)
	s.Grant(2)
	s.Count()
	s.Count()
	if s.Open() {
		t.Error("open beyond the credits")
	}
	if s.Count(); s.Confirm(0, 1, 0) && !s.Open() && s.InFlight() == 2 {
		s.Forget()
	}
	if s.InFlight() != 0 || s.Open() {
		t.Errorf("%d not confirmed after Settle", s.InFlight())
	}
}

// TestCountUnbound checks that an unbound Sender continues until its credits are used up, however
// small its window is.
func TestCountUnbound(t *testing.T) {
	for _, first := range []seq.Num{1, 1<<31 - 2, 1<<32 - 50} {
		var s Sender
		s.Init(0, first, 16)
		s.Unbind()
		if s.Open() {
			t.Fatal("open without credits")
		}
		s.Confirm(0, first-1, 128)
		n := 0
		for ; s.Open(); n++ {
			s.Count()
		}
		if n < 127 || n > 128 || s.Room() != 0 { // one number fewer if zero was skipped
			t.Errorf("first %d: %d packets sent for 128 credits", first, n)
		}
	}
}

// TestCountCredited checks that a packet is credited if the peer has a credit for the packet. Where
// numbers wrap, the sender may count zero as a packet.
func TestCountCredited(t *testing.T) {
	for _, first := range []seq.Num{1, 1<<31 - 2, 1<<32 - 3, 1<<32 - 1} {
		var r Receiver
		r.Init(first, 64)
		c := NewCredits(100)
		c.Join()
		_, credit, _ := r.TakeAck(c)
		for i := range int(credit) {
			if !r.Credited() {
				t.Fatalf("first %d: packet %d of %d has no credit", first, i+1, credit)
			}
			r.Count(1)
		}
		r.Count(1)
		if r.Credited() {
			t.Errorf("first %d: two packets more than %d credits", first, credit)
		}
	}
}
