package reliability

import (
	"testing"
	"time"

	"gobtl/internal/seq"
)

// TestOptimisticAcks checks a peer that acknowledges packets that it has not received. Without the
// test, such a peer raises the rate at will. A withheld packet detects the peer.
func TestOptimisticAcks(t *testing.T) {
	rate := func(test bool) (packets int, verdict AckVerdict) {
		a := newDriven(t, func(r *Rules) { r.InitialWindow = 16 })
		for range 4 {
			room := a.snd.Room()
			a.send(room, Data)
			if test && room > 64 {
				_, next := a.snd.Window()
				a.snd.Withhold(next - 7)
			}
			a.snd.NoteBlocked()
			a.after(10 * time.Microsecond) // instead of a round trip
			if verdict = a.ack(a.sent, a.sent-1); verdict != AckNew {
				break
			}
		}
		return a.sent, verdict
	}
	if n, verdict := rate(false); verdict != AckNew || n < 16+32+64+128 {
		t.Errorf("without a test: %d packets in 40 us, %v", n, verdict)
	}
	if n, verdict := rate(true); verdict != AckLie || n > 16+32+64+128 {
		t.Errorf("with one: %d packets, %v", n, verdict)
	}
}

// TestWithheld checks that each ACK of a withheld packet is a lie, and changes nothing. After the
// packet was sent, the ACK is valid.
func TestWithheld(t *testing.T) {
	const count, held = 100, 5
	n := adaptiveFirst.Add(held)
	for name, lie := range map[string]func(a *driven) AckVerdict{
		"ack":   func(a *driven) AckVerdict { return a.ack(held+1, held-1) },
		"above": func(a *driven) AckVerdict { return a.ack(count, count-1) },
		"last":  func(a *driven) AckVerdict { return a.ack(held, held) },
		"range": func(a *driven) AckVerdict { return a.ack(held-1, 90, held, 90) },
		"plain": func(a *driven) (verdict AckVerdict) {
			a.done, verdict = a.snd.OnAck(a.now, n, 4096, false, a.done[:0])
			return verdict
		},
	} {
		a := newDriven(t, func(r *Rules) { r.InitialWindow = 128 })
		a.send(count, Data)
		if !a.snd.Tests() {
			t.Fatal("nothing is tested")
		}
		a.snd.Withhold(n)
		if a.snd.Tests() || !a.snd.Withheld(n) || a.snd.Withheld(n+1) {
			t.Errorf("%s: not one withheld at a time", name)
		}
		if got := lie(a.after(time.Millisecond)); got != AckLie || a.snd.InFlight() != count {
			t.Errorf("%s: %v, %d of %d in flight", name, got, a.snd.InFlight(), count)
		}
		// An honest peer has received all other packets.
		early := make([]int, 0, count)
		for i := held + 1; i < count; i++ {
			early = append(early, i)
		}
		window, lost := a.policy().cong.window, a.policy().cong.lost
		if got := a.ack(held, count-1, early...); got != AckNew || a.snd.InFlight() != 1 {
			t.Errorf("%s: the truth is %v, %d in flight", name, got, a.snd.InFlight())
		}
		a.ack(held-2, count-1, held) // an outdated ACK has no effect
		a.after(10 * time.Millisecond)
		a.ack(held, count-1, early...)
		again, _ := a.again()
		if len(again) != 1 || again[0] != held {
			t.Fatalf("%s: sent then: %v", name, again)
		}
		if c := &a.policy().cong; c.lost != lost || c.window < window {
			t.Errorf("%s: %d lost, window %d, before %d", name, c.lost, c.window, window)
		}
		if got := a.after(time.Millisecond).ack(count, held); got != AckNew || a.snd.InFlight() != 0 {
			t.Errorf("%s: once it was sent: %v, %d in flight", name, got, a.snd.InFlight())
		}
	}
}

// TestWithheldNowhereElse checks that no packet is withheld where ACKs do not raise the rate. When
// the peer is gone, the withheld packet is forgotten.
func TestWithheldNowhereElse(t *testing.T) {
	f := newDriven(t, func(r *Rules) { r.Congestion = CongestionFixed })
	if f.snd.Tests() {
		t.Error("a sender without a congestion window tests its peer")
	}
	a := newDriven(t, nil)
	a.send(4, Data)
	a.snd.Withhold(adaptiveFirst + 1)
	a.snd.Abort(nil)
	if a.snd.Withheld(adaptiveFirst+1) || !a.snd.Honest(seq.Num(1<<31)) {
		t.Error("withheld for ever")
	}
}
