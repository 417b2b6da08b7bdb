package btl

import (
	"testing"

	"gobtl/btl/internal/sched"
	"gobtl/frag"
)

// urgentScript is a script that has room for 8 packets, and an endpoint that sends messages of one
// packet with tag 1, or urgent ones with tag 2.
type urgentScript struct {
	*script
	t  *testing.T
	ep *Endpoint
}

func newUrgentScript(t *testing.T) *urgentScript {
	t.Helper()
	s, ep := fairScript(t, apart(), 8)
	return &urgentScript{s, t, ep}
}

func (u *urgentScript) post(count int, urgent bool) {
	u.t.Helper()
	for range count {
		tag := Tag(1)
		if urgent {
			tag = 2
		}
		f, err := u.ep.Alloc(tag, 100)
		if err != nil {
			u.t.Fatal(err)
		}
		f.Urgent = urgent
		if _, err := u.ep.Send(u.ep.Now(), f); err != nil {
			u.t.Fatal(err)
		}
	}
}

// tags returns the tags of the fragments in packets, a digit each.
func tags(pkts []sentPacket) (s string) {
	for _, p := range kinds(pkts, frag.KindFrag) {
		s += string('0' + rune(p.hdr.Tag))
	}
	return s
}

// Urgent messages leave ahead of the queued ones, as many as the bound allows. The others leave in
// turn. When the first ones are acknowledged, others may be urgent.
func TestUrgentGoesAhead(t *testing.T) {
	u := newUrgentScript(t)
	u.post(8+6, false)
	u.post(sched.UrgentMax+2, true)
	if got := tags(u.run(3)); got != "11111111" {
		t.Fatalf("before the ACK: %s", got)
	}
	u.ack(u.peerFirst + 7)
	if got := tags(u.run(3)); got != "22222222" {
		t.Errorf("after the ACK: %s", got)
	}
	u.ack(u.peerFirst + 15)
	if got := tags(u.run(3)); got != "11111122" {
		t.Errorf("after the second ACK: %s", got)
	}
	u.post(3, false)
	u.post(1, true)
	u.ack(u.peerFirst + 23)
	if got := tags(u.run(3)); got != "2111" {
		t.Errorf("after the third ACK: %s", got)
	}
	u.ack(u.peerFirst + 27)
	u.run(3)
	if err := u.m.CheckIdle(); err != nil {
		t.Error(err)
	}
}

// An urgent message leaves inside Send if only the small queue is before it, and Send returns
// Queued.
func TestUrgentAtOnce(t *testing.T) {
	u := newUrgentScript(t)
	for _, size := range []int{100_000, u.ep.MaxTiny() + 1, u.ep.MaxTiny() + 1} {
		sendOrFail(t, u.ep, 1, make([]byte, size))
	}
	if queued(u.ep) < 2 {
		t.Fatal("nothing is queued")
	}
	u.take()
	u.post(1, true)
	if got := tags(u.take()); got != "2" {
		t.Errorf("%q left inside Send", got)
	}
}

// An urgent message does not pass a fence, nor do those of several packets pass others.
func TestUrgentKeepsToItsTurn(t *testing.T) {
	u := newUrgentScript(t)
	u.post(8+2, false)
	u.ep.Fence(u.ep.Now())
	u.post(1, true)
	f, err := u.ep.Alloc(2, 100_000)
	if err != nil {
		t.Fatal(err)
	}
	f.Urgent = true
	if _, err := u.ep.Send(u.ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	u.run(3)
	u.ack(u.peerFirst + 7)
	if got := tags(u.run(3)); got != "11" {
		t.Errorf("after the ACK: %s", got)
	}
}
