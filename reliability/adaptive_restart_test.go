package reliability

import (
	"testing"
	"time"
)

// TestSlowStartAfterSilence checks that slow start begins again after a silence in which all
// packets were lost. Packets sent before the silence, including those found lost now, say nothing
// about the present window.
func TestSlowStartAfterSilence(t *testing.T) {
	t.Parallel()
	const rtt, count = time.Millisecond, 400
	first := int32(Adaptive().InitialWindow)
	a, _ := newWarm(t, rtt)
	c := &a.policy().cong
	c.window = 2 * count
	a.snd.updateSendLimit()
	n := a.sent
	a.send(count, Data)
	a.after(rtt).ack(n+1, n) // a round begins with all other packets in flight
	a.send(1, Data)
	for range backoffRestart {
		a.after(100 * time.Millisecond).expire()
		a.again()
	}
	if !c.slow || c.window != first {
		t.Fatalf("after the silence: slow start %v, window of %d", c.slow, c.window)
	}
	for got, copies := n+1, 1; got < a.sent; { // the retransmissions arrive one after the other
		a.after(rtt)
		for range copies {
			got++
			a.ack(got, got-1)
		}
		a.after(rtt / 3).expire() // no other packet has arrived by now
		again, _ := a.again()
		if copies = len(again); copies == 0 && got < a.sent {
			t.Fatalf("%d of %d left, and nothing is sent again", a.sent-got, count)
		}
	}
	if !c.slow || c.window < 4*first {
		t.Errorf("slow start %v, window of %d packets", c.slow, c.window)
	}
}

// TestUnknownAfterSilence checks packets that were sent before a silence and that the first ACKs
// after the silence do not mention. Such packets hold the window no longer than a round trip, in
// which an ACK may still mention them.
func TestUnknownAfterSilence(t *testing.T) {
	t.Parallel()
	const rtt, count = time.Millisecond, 400
	a, _ := newWarm(t, rtt)
	a.policy().cong.window = 2 * count
	a.snd.updateSendLimit()
	n := a.sent
	a.send(count, Data)
	for range backoffRestart {
		a.after(100 * time.Millisecond).expire()
		a.again()
	}
	// The copy of the first packet has arrived, and a later packet that had arrived long ago.
	a.after(rtt).ack(n+1, n, n+3)
	if got, _ := a.again(); len(got) > 2 {
		t.Errorf("%d are sent again before the peer has told of all that it had", len(got))
	}
	a.after(rtt/4).ack(n+1, n, n+3, n+5)
	if got, _ := a.again(); len(got) > 4 {
		t.Errorf("%d are sent again before the peer has told of all that it had", len(got))
	}
	a.after(10 * rtt).expire()
	got, _ := a.again()
	if want := Adaptive().InitialWindow / 2; len(got) < want {
		t.Errorf("%d of %d unknown packets are sent again, want %d", len(got), count-5, want)
	}
	if way := a.policy().onTheWay(&a.snd); int(way) > len(got)+8 {
		t.Errorf("%d packets on the way, sent again %d", way, len(got))
	}
}

// TestLateSampleAfterSilence checks that a single long round trip does not end the slow start after
// a silence, whatever was measured before.
func TestLateSampleAfterSilence(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	rules := Adaptive()
	var c congestion
	c.init(&rules)
	p := path{base: rtt}
	late := func() { c.sample(0, 3*rtt, 3*rtt, &p, 1, 1, &rules) }
	for range 2 * aboveMax {
		late()
	}
	if c.slow {
		t.Fatal("still in slow start")
	}
	c.restart(&rules)
	for i := range aboveMax {
		if !c.slow {
			t.Fatalf("slow start ended by %d samples", i)
		}
		late()
	}
	if c.slow {
		t.Error("still in slow start")
	}
}
