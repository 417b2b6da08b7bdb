package reliability

import (
	"testing"

	"gobtl/internal/seq"
)

// TestBytesBound checks a sender with a byte limit. The sender continues until the limit is
// reached. With a limit below any packet, the sender sends one packet at a time.
func TestBytesBound(t *testing.T) {
	const first = seq.Num(1<<32 - 3) // numbers wrap
	rec, err := NewRecovery(64, 1, Usnic())
	if err != nil {
		t.Fatal(err)
	}
	var s Sender
	s.Init(0, first, 64)
	rec.Join(&s, 0, false)
	s.Grant(50)
	wants := func(what string, open bool, room, of1000 int) {
		t.Helper()
		if s.Open() != open || s.Room() != room || s.RoomOf(1000) != of1000 {
			t.Errorf("%s: open %v, room %d, of 1000 bytes %d; want %v, %d, %d", what, s.Open(), s.Room(),
				s.RoomOf(1000), open, room, of1000)
		}
	}
	send := func(token Token, sizeBytes int) {
		n := s.Admit(token)
		s.Carry(sizeBytes)
		s.Post(0, token, n, Data, 0)
	}
	wants("no bound", true, 50, 50)
	s.BoundBytes(first-1, 50, 4096)
	wants("a bound", true, 50, 5)
	send(0, 4095)
	wants("below it", true, 49, 1)
	send(1, 9000)
	wants("above it", false, 0, 0)
	s.BoundBytes(first-1, 49, NoBytesBound)
	wants("of an ACK that allows less", false, 0, 0)
	s.BoundBytes(first-1, 50, 20000)
	wants("a larger one", true, 48, 7)
	s.BoundBytes(first-1, 50, 0)
	wants("a smaller one", false, 0, 0)
	send(2, 1) // a packet whose number was reserved before
	wants("a packet with a reserved number is sent", false, 0, 0)
	done, _ := s.OnAck(0, first+2, 50, false, nil)
	s.Carry(-4095 - 9000 - 1)
	s.BoundBytes(first+2, 50, 0)
	if len(done) != 3 || s.InFlightBytes() != 0 {
		t.Errorf("%d packets acknowledged, %d bytes in flight", len(done), s.InFlightBytes())
	}
	wants("of nothing", true, 50, 1)
	send(3, 1)
	wants("one has left", false, 0, 0)
	s.Abort(nil)
	if s.InFlightBytes() != 0 {
		t.Errorf("%d bytes in flight to nobody", s.InFlightBytes())
	}
}
