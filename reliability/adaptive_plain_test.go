package reliability

import (
	"testing"
	"time"
)

// plainPeer is a sender of the adaptive profile whose peer sends no selective ACKs.
func plainPeer(t *testing.T) *driven {
	t.Helper()
	a := newDriven(t, nil)
	a.policy().selective = false
	return a
}

// plain acknowledges the packets below upTo, without a selective part.
func (a *driven) plain(upTo int) AckVerdict {
	ack := adaptiveFirst.Add(uint32(upTo)) - 1
	var verdict AckVerdict
	a.done, verdict = a.snd.OnAck(a.now, ack, 4096, false, a.done[:0])
	a.check()
	return verdict
}

// TestPlainAckMeasures checks packets that waited at the peer behind a lost packet. Their ACK,
// which comes late, says nothing about the path.
func TestPlainAckMeasures(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := plainPeer(t)
	a.warm(rtt)
	n := a.sent
	a.send(4, Data) // n is lost
	a.after(rtt).plain(n)
	a.plain(n)
	wantAgain(t, a, n) // the copy of n is also lost
	a.after(100 * time.Millisecond).expire()
	wantAgain(t, a, n)
	a.after(rtt).plain(n + 4)
	path := a.policy().paths[Data]
	if len(a.done) != 4 || path.srtt > rtt+rtt/8 {
		t.Errorf("%d freed, round trip of %v measured", len(a.done), path.srtt)
	}
	a.send(2, Data)
	a.after(2 * rtt).plain(a.sent)
	if got := a.policy().paths[Data].srtt; got <= path.srtt {
		t.Errorf("round trip of %v not measured: %v", 2*rtt, got)
	}
}

// TestShorterPathIsLearnt checks a path that has become shorter while all packets were
// retransmissions. The ACK of a copy may then arrive sooner than the least known round trip. After
// a while the sender accepts such an ACK, and declares earlier packets lost.
func TestShorterPathIsLearnt(t *testing.T) {
	t.Parallel()
	const rtt = 10 * time.Millisecond
	for _, c := range []struct {
		silence time.Duration
		again   int
	}{{3 * rtt, 0}, {time.Second, 3}} {
		a := plainPeer(t)
		a.warm(rtt)
		n := a.sent
		a.send(4, Data) // all packets are lost
		a.after(c.silence).expire()
		wantAgain(t, a, n)
		a.after(rtt / 2).plain(n + 1)
		a.expire()
		if got, _ := a.again(); len(got) != c.again {
			t.Errorf("after a silence of %v: sent again: %v", c.silence, got)
		}
	}
}

// TestPlainAckNotLate checks packets that are acknowledged late because an earlier packet was lost.
// Such packets do not count as late packets.
func TestPlainAckNotLate(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := plainPeer(t)
	a.warm(rtt)
	n := a.sent
	a.send(8, Data) // n is lost
	a.after(50 * time.Millisecond).expire()
	a.plain(n) // an ACK for a packet beyond the gap
	wantAgain(t, a, n)
	a.after(rtt).plain(n + 8)
	if got := a.policy().reorderSeen; got != 0 {
		t.Errorf("late by %v", got)
	}
}

// The state of the profile is made by the first packet. Before that packet, an ACK makes no state,
// and the window, the path and the checks are as if the state was there.
func TestStateBeginsWithFirstPacket(t *testing.T) {
	for _, congestion := range []string{CongestionDelay, CongestionFixed} {
		idle := newDriven(t, func(r *Rules) { r.Congestion = congestion })
		begun := newDriven(t, func(r *Rules) { r.Congestion = congestion })
		begun.policy()
		begun.snd.updateSendLimit()
		for _, a := range []*driven{idle, begun} {
			if _, verdict := a.snd.OnAck(a.now, adaptiveFirst-1, 4000, false, nil); verdict != AckIdle {
				t.Errorf("%s: the ACK of nothing is %v", congestion, verdict)
			}
			if err := a.snd.Check(); err != nil {
				t.Error(err)
			}
		}
		if idle.snd.policy.adaptive != nil || begun.snd.policy.adaptive == nil {
			t.Fatalf("%s: the state is there: %v", congestion, idle.snd.policy.adaptive != nil)
		}
		if i, b := idle.snd.Room(), begun.snd.Room(); i != b || i == 0 {
			t.Errorf("%s: room for %d packets, and for %d with the state", congestion, i, b)
		}
		if i, b := idle.snd.Path(), begun.snd.Path(); i != b {
			t.Errorf("%s: path %+v, and %+v with the state", congestion, i, b)
		}
		idle.send(1, Data)
		begun.send(1, Data)
		if i, b := *idle.snd.policy.adaptive, *begun.snd.policy.adaptive; i.roundEnd != b.roundEnd ||
			i.newest != b.newest || i.timerAt != b.timerAt || i.cong.window != b.cong.window {
			t.Errorf("%s: %+v, and %+v when made before", congestion, i, b)
		}
	}
}
