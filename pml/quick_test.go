package pml

import (
	"bytes"
	"testing"
)

// TrySend sends what can leave at once, in the order of all sends, and nothing else.
func TestTrySend(t *testing.T) {
	step, a, b, to := memPair(t)
	if a.TrySend(step(), to, 1, make([]byte, tinyMost+1)) {
		t.Error("a message left that is too large for that")
	}
	var sends [3]Request
	if err := a.Send(step(), &sends[0], to, 1, []byte{0}, Standard); err != nil {
		t.Fatal(err)
	}
	if !a.TrySend(step(), to, 1, []byte{1}) {
		t.Fatal("not sent, though there is room")
	}
	a.done.running = true // as in an OnDone
	if !a.TrySend(step(), to, 1, nil) {
		t.Error("not sent by who is told of an end")
	}
	a.done.running = false
	count := 3
	for a.TrySend(step(), to, 1, []byte{byte(count)}) {
		count++
	}
	if count != a.cfg.EnvelopesMax {
		t.Errorf("%d messages are unreceived, %d may be", count, a.cfg.EnvelopesMax)
	}
	// Behind what waits for room nothing leaves, even when there is room again.
	if err := a.Send(step(), &sends[1], to, 1, []byte{byte(count)}, Standard); err != nil {
		t.Fatal(err)
	}
	to.credit.taken++
	if sends[1].Done() || a.TrySend(1, to, 1, nil) {
		t.Error("a message has overtaken one that waits")
	}
	to.credit.taken--
	var from *Peer
	for i := range count + 1 {
		var r Request
		room := []byte{0}
		if err := b.Recv(step(), &r, nil, 1, exactly, room); err != nil {
			t.Fatal(err)
		}
		for k := 0; !r.Done() && k < 10_000; k++ {
			step()
		}
		if want := byte(i); !r.Done() || i != 2 && room[0] != want || i == 2 && r.Len() != 0 {
			t.Fatalf("message %d: done %v, %d", i, r.Done(), room[0])
		}
		from = r.Peer()
	}
	from.drive(ErrProtocol)
	for range 10_000 {
		step()
	}
	if to.Err() == nil || a.TrySend(step(), to, 1, nil) {
		t.Error("sent to a peer that is gone")
	}
}

// Post posts a receive for what has not come, and leaves everything else to Recv.
func TestPost(t *testing.T) {
	step, a, b, to := memPair(t)
	send := func(tag uint64) {
		var s Request
		if err := a.Send(step(), &s, to, tag, []byte("here"), Standard); err != nil {
			t.Fatal(err)
		}
		for range 10 {
			step()
		}
	}
	var first, second, third Request
	room := make([]byte, 4)
	if !b.Post(&first, nil, 1, exactly, room) || b.Post(&first, nil, 2, exactly, room) {
		t.Error("posted twice, or not at all")
	}
	if send(1); !first.Done() || first.Err() != nil || !bytes.Equal(room, []byte("here")) {
		t.Errorf("done %v, %v, %q", first.Done(), first.Err(), room)
	}
	send(2)
	if b.Post(&second, nil, 2, exactly, room) || b.Post(&second, nil, 0, 0, room) || !second.Done() {
		t.Error("posted though a message is here that it must have")
	}
	if err := b.Recv(step(), &second, nil, 2, exactly, room); err != nil || !second.Done() {
		t.Errorf("%v, done %v", err, second.Done())
	}
	second.Peer().drive(ErrProtocol)
	if b.Post(&third, second.Peer(), 3, exactly, room) || !third.Done() {
		t.Error("posted for a peer that is gone")
	}
}

// Whoever ends in an OnDone, or behind others that have ended, is told after them, not within.
func TestToldInTurn(t *testing.T) {
	step, a, b, to := memPair(t)
	var told []string
	within := 0
	tell := func(name string, then func()) func(*Request) {
		return func(*Request) {
			if within++; within > 1 {
				t.Errorf("%s is told within another one", name)
			}
			told = append(told, name)
			if then != nil {
				then()
			}
			within--
		}
	}
	var first, second, third, recv Request
	begin := func(r *Request) {
		if err := a.Send(a.m.Now(), r, to, 1, nil, Standard); err != nil {
			t.Fatal(err)
		}
	}
	third.OnDone = tell("third", nil)
	second.OnDone = tell("second", nil)
	first.OnDone = tell("first", func() {
		begin(&second)
		begin(&third)
		if second.Done() {
			t.Error("the second is done before it is told")
		}
	})
	step()
	begin(&first)
	recv.OnDone = tell("received", nil)
	if err := b.Recv(step(), &recv, nil, 1, exactly, nil); err != nil {
		t.Fatal(err)
	}
	for range 10 {
		step()
	}
	want := []string{"first", "second", "third", "received"}
	if len(told) != len(want) {
		t.Fatalf("told %v", told)
	}
	for i := range want {
		if told[i] != want[i] {
			t.Fatalf("told %v, want %v", told, want)
		}
	}
}
