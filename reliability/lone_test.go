package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// sendLone puts a lone answer in flight.
func (a *driven) sendLone(c Channel) {
	a.t.Helper()
	if !a.snd.MayBePatient(a.now, c, 100) {
		a.t.Fatalf("at %d the sender may not be patient", a.now)
	}
	token := Token(a.sent)
	a.sent++
	a.snd.PostLone(a.now, token, a.snd.Admit(token), c, time.Hour)
	a.check()
}

// TestPatience checks that a sender waits longer for the ACK of a lone answer while nothing else is
// in flight. An ACK ends the longer wait, and so does any other sent packet, which begins a new
// wait.
func TestPatience(t *testing.T) {
	t.Parallel()
	const rtt = 10 * time.Microsecond
	for _, c := range []Channel{Command, Data} {
		a, _ := newWarm(t, rtt)
		wait := a.policy().shared.rules.ProbeTimeoutMin
		a.sendLone(c)
		a.after(LoneAckDelay).expire()
		wantAgain(t, a)
		a.after(2 * wait).expire()
		wantAgain(t, a, a.sent-1) // after its ordinary time-out
		a.after(rtt).ack(a.sent, a.sent-1)

		a, _ = newWarm(t, rtt)
		a.sendLone(c)
		a.after(LoneAckDelay/2).send(1, c)
		a.after(wait - 1).expire()
		wantAgain(t, a)
		a.after(wait).expire()
		wantAgain(t, a, a.sent-2)
		a.after(rtt).ack(a.sent, a.sent-1)
		a.after(rtt).send(1, c)
		a.after(2 * wait).expire()
		wantAgain(t, a, a.sent-1) // after the ordinary time again
	}
}

// TestMissedAnswer checks a duplicate of an earlier packet from the peer. The duplicate makes the
// sender retransmit a lone answer, unless the duplicate comes too soon. After an early duplicate
// the sender waits for the answer's ACK as for any other packet. Without a lone answer the
// duplicate has no effect.
func TestMissedAnswer(t *testing.T) {
	t.Parallel()
	const rtt = 100 * time.Microsecond
	a, _ := newWarm(t, rtt)
	if a.snd.Missed(a.now) {
		t.Error("missed, and nothing is in flight")
	}
	a.sendLone(Command)
	if !a.snd.Missed(a.after(rtt).now) {
		t.Error("not missed a round trip later")
	}
	wantAgain(t, a, a.sent-1)
	if a.snd.Missed(a.after(rtt).now) {
		t.Error("missed twice")
	}
	a.ack(a.sent, a.sent-1)

	a, _ = newWarm(t, rtt)
	a.expire() // the timer of an earlier packet
	a.sendLone(Command)
	if !a.snd.Missed(a.after(rtt).now) {
		t.Error("not missed a round trip later")
	}
	a.send(1, Command) // before the retransmission, and with the time-out of any other packet
	a.check()

	a, _ = newWarm(t, rtt)
	a.sendLone(Command)
	if a.snd.Missed(a.after(rtt / 2).now) {
		t.Error("missed before an answer could have come")
	}
	a.check()
	a.after(a.policy().shared.rules.ResendTimeoutMin).expire()
	wantAgain(t, a, a.sent-1)

	a.after(rtt).ack(a.sent, a.sent-1)
	a.send(1, Command)
	if a.snd.Missed(a.after(rtt).now) {
		t.Error("an ordinary packet was missed")
	}
}

// TestLoneAnswerWithoutMemory checks a lone answer that the peer refuses for lack of memory. The
// sender then waits as for any other packet.
func TestLoneAnswerWithoutMemory(t *testing.T) {
	t.Parallel()
	const rtt = 100 * time.Microsecond
	a, _ := newWarm(t, rtt)
	a.sendLone(Command)
	a.snd.Carry(100)
	a.after(rtt).snd.NoMemory(a.now, Token(a.sent-1), 100, time.Second)
	a.check()
	if a.snd.Missed(a.after(rtt).now) {
		t.Error("it was missed, too")
	}
	a.check()
}

// TestLoneAnswerMeasures checks that the ACK of a lone answer gives a sample only if the ACK
// reports its delay.
func TestLoneAnswerMeasures(t *testing.T) {
	t.Parallel()
	const rtt, held = 100 * time.Microsecond, 20 * time.Millisecond
	a, _ := newWarm(t, rtt)
	before := a.snd.Path()
	a.sendLone(Command)
	a.after(rtt + held)
	upTo := adaptiveFirst.Add(uint32(a.sent)) - 1
	a.done, _ = a.snd.OnAck(a.now, upTo, 4096, false, a.done[:0])
	a.check()
	if after := a.snd.Path(); len(a.done) != 1 || after.RoundTrip != before.RoundTrip {
		t.Errorf("%d acknowledged, and the path was %+v, is %+v", len(a.done), before, after)
	}
	a.sendLone(Command)
	a.after(rtt + held)
	sack := Sack{Last: upTo + 1, Delay: held}
	a.done, _ = a.snd.OnSack(a.now, upTo+1, 4096, &sack, a.done[:0])
	a.check()
	p := &a.policy().paths[Command]
	if p.sampledAt != a.now || p.srtt > 2*rtt {
		t.Errorf("measured %v at %d, now %d", p.srtt, p.sampledAt, a.now)
	}
}

// TestMayBePatient checks the conditions for a lone answer. Nothing is in flight, the path was
// measured lately, a packet was sent not long ago, and another packet may follow before the ACK.
func TestMayBePatient(t *testing.T) {
	t.Parallel()
	a := newDriven(t, nil)
	may := func(what string, want bool) {
		t.Helper()
		if got := a.snd.MayBePatient(a.now, Command, 100); got != want {
			t.Errorf("%s: may be patient: %v", what, got)
		}
	}
	may("nothing measured", false)
	a.warm(time.Millisecond)
	may("measured", true)
	a.send(1, Data)
	may("something in flight", false)
	a.after(time.Millisecond).ack(a.sent, a.sent-1)
	a.after(LoneAckDelay - time.Millisecond - 1)
	may("soon", true)
	a.after(1)
	may("a pause", false)
	for range 60 { // only one channel is used, and the other is not measured
		a.send(1, Data)
		a.after(20*time.Millisecond).ack(a.sent, a.sent-1)
	}
	may("measured long ago", false)
	next := a.snd.next
	for _, room := range []struct {
		packets uint32
		bytes   int
		want    bool
	}{{1, NoBytesBound, false}, {2, NoBytesBound, true}, {2, 100, false}, {2, 101, true}} {
		a.snd.limit, a.snd.bytesMax = next.Add(room.packets), room.bytes
		a.snd.updateSendLimit()
		if got := a.snd.MayBePatient(a.now, Data, 100); got != room.want {
			t.Errorf("room for %d packets and %d bytes: may be patient: %v", room.packets, room.bytes, got)
		}
	}
	a.snd.limit, a.snd.bytesMax = next.Add(4096), NoBytesBound
	a.snd.updateSendLimit()
	if !a.snd.MayBePatient(a.now, Data, 100) {
		t.Error("nor may it be by the other channel")
	}
}

// TestRestBesideLoneAnswer checks that credits lapse while a lone answer is in flight, as they do
// when nothing is in flight.
func TestRestBesideLoneAnswer(t *testing.T) {
	t.Parallel()
	a, _ := newWarm(t, 10*time.Microsecond)
	a.sendLone(Command)
	a.after(creditLease).snd.Rest(a.now)
	if got := a.snd.limit.Sub(a.snd.next); got != earnedFirst {
		t.Errorf("%d credits are left, want %d", got, earnedFirst)
	}
	a.check()
}

// TestHeldAck checks that the ACK of a lone answer is delayed, unless another reason makes an ACK
// due.
func TestHeldAck(t *testing.T) {
	rules := quick()
	const now = mono.Time(1e9)
	soon, late := now.Add(rules.AckDelay), now.Add(LoneAckDelay)
	for _, tc := range []struct {
		name  string
		holds bool
		do    func(r *Receiver)
		want  mono.Time
		later bool
	}{
		{"lone", true, func(*Receiver) {}, late, true},
		{"the receiver has something in flight", false, func(*Receiver) {}, soon, false},
		{"then another", true, func(r *Receiver) { r.Accept(now, 101, &rules) }, soon, false},
		{"then a copy", true, func(r *Receiver) { r.Repeated(now) }, now, false},
		{"asked for", true, func(r *Receiver) { r.AskAckOf(now, 100) }, now, false},
		{"credits", true, func(r *Receiver) { r.AskAck(now, time.Microsecond) }, now + 1000, false},
		{"then a gap", true, func(r *Receiver) { r.Accept(now, 102, &rules) }, now, false},
	} {
		var r Receiver
		c := NewCredits(1024)
		c.Join()
		r.Init(100, 64)
		r.Selective = true
		r.Grant(c)
		r.AcceptLone(now, 100, tc.holds, &rules)
		if r.Answers() {
			t.Errorf("%s: the ACK of a lone answer makes another one", tc.name)
		}
		tc.do(&r)
		if r.AckDue() != tc.want || r.AckLater() != tc.later {
			t.Errorf("%s: due at %d, held back: %v; want %d, %v", tc.name, r.AckDue(), r.AckLater(),
				tc.want, tc.later)
		}
		if r.TakeAck(c); r.AckLater() || r.Answers() || r.AckDue() != mono.Never {
			t.Errorf("%s: an ACK is owed when it has left", tc.name)
		}
	}
	reasons := map[string]func(r *Receiver, c *Credits) seq.Num{
		"another waits": func(r *Receiver, _ *Credits) seq.Num { r.Accept(now, 100, &rules); return 101 },
		"behind a gap":  func(*Receiver, *Credits) seq.Num { return 101 },
		"asked before":  func(r *Receiver, _ *Credits) seq.Num { r.AskAckOf(now, 100); return 100 },
		"no credits":    func(r *Receiver, _ *Credits) seq.Num { r.limit = 101; return 100 },
	}
	for name, prepare := range reasons {
		var r Receiver
		c := NewCredits(1024)
		c.Join()
		r.Init(100, 64)
		r.Grant(c)
		r.AcceptLone(now, prepare(&r, c), true, &rules)
		if r.AckDue() > soon || r.AckLater() {
			t.Errorf("%s: due at %d, held back: %v", name, r.AckDue(), r.AckLater())
		}
	}
}
