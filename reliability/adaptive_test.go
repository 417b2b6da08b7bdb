package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// driven is a sender of the adaptive profile that a test drives step by step. Token i carries
// packet i.
type driven struct {
	t    failer
	segs *Recovery
	snd  Sender
	now  mono.Time
	sent int
	done []Token
}

const adaptiveFirst = seq.Num(1<<32 - 5) // the sequence numbers wrap during the test

func newDriven(t failer, change func(*Rules)) *driven {
	t.Helper()
	rules := Adaptive()
	if change != nil {
		change(&rules)
	}
	segs, err := NewRecovery(4096, 4, rules)
	if err != nil {
		t.Fatalf("%v", err)
	}
	a := &driven{t: t, segs: segs, now: 1e9}
	a.snd.Init(3, adaptiveFirst, rules.WindowPackets)
	segs.Join(&a.snd, 50*time.Microsecond, true)
	a.snd.Grant(4096)
	return a
}

// policy returns the state of the profile adaptive, also before the first packet.
func (a *driven) policy() *adaptive {
	a.snd.policy.begin(&a.snd)
	return a.snd.policy.adaptive
}

func (a *driven) after(d time.Duration) *driven {
	a.now = a.now.Add(d)
	return a
}

// send puts count packets in flight on a channel.
func (a *driven) send(count int, c Channel) {
	for range count {
		token := Token(a.sent)
		a.sent++
		n := a.snd.Admit(token)
		a.snd.Post(a.now, token, n, c, time.Hour)
	}
}

// ack acknowledges the packets below upTo and those in early. The argument last is the packet that
// arrived last.
func (a *driven) ack(upTo, last int, early ...int) AckVerdict {
	sack := Sack{Last: adaptiveFirst.Add(uint32(last))}
	for _, i := range early {
		bit := i - upTo - 1
		for len(sack.Words) <= bit/64 {
			sack.Words = append(sack.Words, 0)
		}
		sack.Words[bit/64] |= 1 << (bit % 64)
	}
	var verdict AckVerdict
	ack := adaptiveFirst.Add(uint32(upTo)) - 1
	a.done, verdict = a.snd.OnSack(a.now, ack, 4096, &sack, a.done[:0])
	a.check()
	return verdict
}

// again retransmits the packets on the resend list, and returns these packets and the causes.
func (a *driven) again() (tokens []Token, causes []Cause) {
	for {
		token, cause, ok := a.segs.PopResend()
		if !ok {
			a.check()
			return tokens, causes
		}
		a.snd.Repost(a.now, token, time.Hour)
		tokens, causes = append(tokens, token), append(causes, cause)
	}
}

// expire runs the timers that are due.
func (a *driven) expire() {
	for a.segs.Expire(a.now) != nil {
	}
	a.check()
}

func (a *driven) check() {
	a.t.Helper()
	if err := a.segs.Check(); err != nil {
		a.t.Fatalf("%v", err)
	}
	if err := a.snd.Check(); err != nil {
		a.t.Fatalf("%v", err)
	}
}

// warm measures a round trip on both channels a few times.
func (a *driven) warm(rtt time.Duration) {
	for i := range 32 {
		a.send(1, Channel(i%2))
		a.after(rtt)
		a.ack(a.sent, a.sent-1)
	}
	a.policy().cong.slow = false
	a.policy().pace(&a.snd, a.now) // there is pacing in slow start
}

// newWarm returns a sender whose paths are measured, and the number of the sender's next packet.
func newWarm(t failer, rtt time.Duration) (a *driven, next int) {
	t.Helper()
	a = newDriven(t, nil)
	a.warm(rtt)
	return a, a.sent
}

func wantAgain(t *testing.T, a *driven, want ...int) {
	t.Helper()
	got, _ := a.again()
	if len(got) != len(want) {
		t.Fatalf("sent again: %v, want %v", got, want)
	}
	for i, w := range want {
		if got[i] != Token(w) {
			t.Fatalf("sent again: %v, want %v", got, want)
		}
	}
}

// TestProbeAfterPause checks the probe for the first packet after a pause. The probe waits as long
// as a peer takes that sleeps twice, before the packet arrives and before the peer acknowledges the
// packet. Other packets do not get this additional time.
func TestProbeAfterPause(t *testing.T) {
	t.Parallel()
	const rtt = 10 * time.Microsecond
	a, _ := newWarm(t, rtt)
	rules := a.policy().shared.rules
	for _, tc := range []struct {
		pause, least, most time.Duration
	}{
		{0, rules.ProbeTimeoutMin, rules.ResendTimeoutMin - 1},
		{rules.ResendTimeoutMin, rules.ResendTimeoutMin, rules.ResendTimeoutMin + rtt},
		{0, rules.ProbeTimeoutMin, rules.ResendTimeoutMin - 1},
		{time.Second, rules.ResendTimeoutMin, rules.ResendTimeoutMin + rtt},
	} {
		a.after(tc.pause).send(1, Data)
		sent := a.now
		if wait := a.policy().due(&a.snd).Sub(sent); wait < tc.least || wait > tc.most {
			t.Errorf("after a pause of %v the probe waits for %v, want %v to %v", tc.pause, wait, tc.least,
				tc.most)
		}
		a.after(tc.least - 1).expire()
		wantAgain(t, a)
		a.ack(a.sent, a.sent-1)
	}
	a.after(time.Second).send(1, Data)
	a.after(2 * rules.ResendTimeoutMin).expire()
	wantAgain(t, a, a.sent-1)
}

// TestLossByTime checks that a packet is declared lost if a packet sent later on the same channel
// has arrived and some time has passed. The packet is not declared lost sooner, not because of the
// other channel, and only once.
func TestLossByTime(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(5, Data)
	a.after(10*time.Microsecond).send(1, Command)
	a.after(rtt / 2)
	if a.ack(n, n+5, n+5); len(a.done) != 1 {
		t.Fatalf("freed %v", a.done)
	}
	wantAgain(t, a) // packets of the command channel are no evidence
	a.after(rtt/2).ack(n, n+4, n+1, n+2, n+4, n+5)
	wantAgain(t, a) // the other packets may be slightly late
	a.after(rtt/4 - 20*time.Microsecond).expire()
	wantAgain(t, a)
	a.after(40 * time.Microsecond).expire()
	wantAgain(t, a, n, n+3)
	a.after(rtt/2).ack(n, n+4, n+1, n+2, n+4, n+5)
	a.expire()
	wantAgain(t, a) // younger than a round trip
	a.after(rtt/2).ack(n+6, n+3)
	if a.snd.InFlight() != 0 {
		t.Errorf("%d packets in flight", a.snd.InFlight())
	}
}

// TestChannelsApart checks that a packet that is later than a packet of the other channel is not
// declared lost. Packets of different channels may overtake each other by as much as a usual wait.
func TestChannelsApart(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(1, Data)
	a.after(10*time.Microsecond).send(1, Command)
	a.after(rtt).ack(n, n+1, n+1)
	a.after(rtt / 3).expire()
	wantAgain(t, a)
	a.after(rtt/10).ack(n+2, n)
	a.expire()
	wantAgain(t, a)
}

// TestSlowChannelIsAwaited checks a channel that suddenly becomes much slower than the other
// channel, on a very short path. Packets of the slow channel have as much time as the first probe.
func TestSlowChannelIsAwaited(t *testing.T) {
	t.Parallel()
	const rtt = 20 * time.Microsecond
	a, _ := newWarm(t, rtt)
	least := a.segs.rules.ProbeTimeoutMin
	if usual := a.policy().paths[Data].wait() + a.policy().reorderWindow(Data); usual > least/2 {
		t.Fatalf("%v is no short wait", usual)
	}
	n := a.sent
	a.send(1, Data)
	a.after(least-rtt).send(1, Command)
	a.after(rtt-time.Microsecond).ack(n, n+1, n+1)
	wantAgain(t, a)
	a.after(2*time.Microsecond).send(1, Command)
	a.after(rtt).ack(n, n+2, n+1, n+2)
	wantAgain(t, a, n) // but no longer
}

// TestLostCopy checks that a lost copy is also declared lost, because of packets sent after the
// copy.
func TestLostCopy(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(3, Data)
	a.after(rtt).ack(n, n+2, n+1, n+2)
	a.after(rtt / 3).expire()
	wantAgain(t, a, n)
	a.after(10*time.Microsecond).send(2, Data)
	a.after(rtt).ack(n, n+4, n+1, n+2, n+3, n+4)
	a.after(rtt / 3).expire()
	wantAgain(t, a, n)
}

// TestEarlierCopyArrives checks a peer that is stopped for a while. The packets in its socket are
// retransmitted. When the peer continues and acknowledges the first copy of a packet, the sender
// must not take the ACK for that of the latest copy. Packets sent before the latest copy must not
// be declared lost.
func TestEarlierCopyArrives(t *testing.T) {
	t.Parallel()
	const rtt, count = time.Millisecond, 20
	a, n := newWarm(t, rtt)
	a.send(3, Data)
	a.after(rtt).ack(n, n+2, n+1, n+2)
	a.after(rtt / 3).expire()
	wantAgain(t, a, n)
	a.after(10*time.Microsecond).send(count, Data)
	a.after(5 * rtt).expire() // the peer has read no packet yet
	wantAgain(t, a, n)
	a.after(2*rtt).ack(n+3, n) // now the peer reads the first copy
	wantAgain(t, a)
	for i := range count {
		a.after(100 * time.Microsecond).expire()
		wantAgain(t, a)
		a.ack(n+4+i, n+3+i)
		wantAgain(t, a)
	}
	if spare := a.segs.Counts(); a.snd.InFlight() != 0 || spare.Throttled != 0 {
		t.Errorf("%d packets in flight, %+v", a.snd.InFlight(), spare)
	}
}

// TestOnlyCopiesArrive checks arrivals of retransmissions only. All packets sent before the copies
// are declared lost a little later, on both channels, because the peer would have acknowledged them
// by then.
func TestOnlyCopiesArrive(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(2, Data)
	a.send(2, Command)
	a.after(5 * rtt).expire()
	wantAgain(t, a, n)
	a.after(rtt).ack(n+1, n)
	wantAgain(t, a)
	a.after(50*time.Microsecond + delayNoise + 10*time.Microsecond).expire()
	wantAgain(t, a, n+1, n+2, n+3)
}

// TestReorderingIsLearnt checks that packets that are late by less than a round trip are not lost,
// and that later packets get more time.
func TestReorderingIsLearnt(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(2, Data)
	a.after(rtt).ack(n, n+1, n+1)
	a.after(rtt/5).ack(n+2, n) // 200 us late
	wantAgain(t, a)
	if got := a.policy().reorderWindow(Data); got < 220*time.Microsecond {
		t.Errorf("waits %v for packets that were 200 us late", got)
	}
	for range 3 { // and more
		n = a.sent
		a.send(2, Data)
		a.after(rtt).ack(n, n+1, n+1)
		a.after(rtt/4-10*time.Microsecond).ack(n+2, n)
	}
	n = a.sent
	a.send(2, Data)
	a.after(rtt).ack(n, n+1, n+1)
	a.after(rtt/4 + 20*time.Microsecond).expire()
	wantAgain(t, a)
}

// TestProbeAndTimeouts checks that without ACKs the oldest packet is retransmitted after about two
// round trips, and then at growing intervals.
func TestProbeAndTimeouts(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	a.send(3, Data)
	began := a.now
	var at []time.Duration
	for a.now.Sub(began) < 500*time.Millisecond {
		a.now = a.segs.Deadline()
		a.expire()
		tokens, causes := a.again()
		for i, token := range tokens {
			want := CauseTimeout
			if len(at) == 0 {
				want = CauseProbe
			}
			if token != Token(n) || causes[i] != want {
				t.Fatalf("packet %d sent again, cause %d", token, causes[i])
			}
			at = append(at, a.now.Sub(began))
		}
	}
	if len(at) < 5 || len(at) > 10 {
		t.Fatalf("sent again at %v", at)
	}
	if at[0] < rtt || at[0] > 2*rtt+100*time.Microsecond {
		t.Errorf("the first time after %v", at[0])
	}
	for i := 2; i < len(at); i++ {
		if d := at[i] - at[i-1]; d < 2*(at[i-1]-at[i-2])*9/10 {
			t.Errorf("sent again at %v: no back-off", at)
		}
	}
	a.after(rtt).ack(n+3, n+2)
	if a.policy().backoff != 0 {
		t.Errorf("still backs off by %d", a.policy().backoff)
	}
}

// TestLateAcksAreNoLoss checks a time-out because the peer or the sender had no processor for a
// while. Such a time-out does not make other packets lost, because their ACKs are only late.
func TestLateAcksAreNoLoss(t *testing.T) {
	t.Parallel()
	const rtt = 100 * time.Microsecond
	a, n := newWarm(t, rtt)
	a.send(30, Data)
	a.after(5 * time.Millisecond).expire()
	wantAgain(t, a, n)
	a.after(5*time.Millisecond).ack(n+20, n+19)
	wantAgain(t, a)
	a.after(rtt).expire()
	wantAgain(t, a)
	a.after(rtt).ack(n+30, n+29)
	if a.snd.InFlight() != 0 {
		t.Errorf("%d packets in flight", a.snd.InFlight())
	}
}

// TestFirstGuess checks that the first time-out is that of the rules, and that the first measured
// round trip replaces it at once.
func TestFirstGuess(t *testing.T) {
	t.Parallel()
	a := newDriven(t, nil)
	a.send(1, Data)
	if d := a.segs.Deadline().Sub(a.now); d < 99*time.Millisecond || d > 101*time.Millisecond {
		t.Errorf("the first time-out is %v", d)
	}
	a.after(200*time.Microsecond).ack(1, 0)
	a.send(1, Data)
	if d := a.segs.Deadline().Sub(a.now); d > time.Millisecond {
		t.Errorf("after a round trip of 200 us the time-out is %v", d)
	}
}

// TestResendBudget checks the limit of retransmissions, which is a window at once, and a share of
// the packets that arrive later.
func TestResendBudget(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := newDriven(t, func(r *Rules) { r.Congestion = CongestionFixed })
	a.warm(rtt)
	n := a.sent
	a.send(2000, Data)
	a.after(rtt).ack(n, n+1999, n+1999)
	a.after(rtt).expire()
	got, _ := a.again()
	if len(got) < 32 || len(got) > 700 {
		t.Fatalf("%d of 1999 lost packets were sent again at once", len(got))
	}
	waiting := 1999 - len(got)
	if a.policy().lostWaiting != int32(waiting) || a.segs.Counts().Throttled != uint64(waiting) {
		t.Errorf("%d packets wait for the budget, want %d; counted %+v", a.policy().lostWaiting, waiting,
			a.segs.Counts())
	}
	sent := len(got)
	for rounds := 0; sent < 1999; rounds++ {
		if rounds > 200 {
			t.Fatalf("after %d round trips %d packets were sent again", rounds, sent)
		}
		a.after(rtt).ack(n+sent, n+sent-1, n+1999)
		a.expire()
		got, _ = a.again()
		sent += len(got)
	}
	if n := a.segs.Counts().Throttled; n != uint64(waiting) {
		t.Errorf("%d of %d packets counted that had to wait", n, waiting)
	}
}

// TestCopiesInVain checks that copies that arrive in addition to the original are counted, and
// lengthen the reordering window.
func TestCopiesInVain(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a, n := newWarm(t, rtt)
	before := a.policy().reorderWindow(Data)
	a.send(2, Data)
	a.after(rtt).ack(n, n+1, n+1)
	a.after(rtt / 3).expire()
	wantAgain(t, a, n)
	a.after(rtt/4).ack(n+2, n)
	a.send(1, Data)
	a.after(rtt)
	sack := Sack{Last: adaptiveFirst.Add(uint32(n + 2)), Copies: 1}
	a.done, _ = a.snd.OnSack(a.now, adaptiveFirst.Add(uint32(n+2)), 4096, &sack, a.done[:0])
	if a.policy().spurious != 1 || a.segs.Counts().Spurious != 1 {
		t.Errorf("%d copies in vain, want 1; counted %+v", a.policy().spurious, a.segs.Counts())
	}
	a.send(1, Data)
	a.after(rtt).ack(a.sent, a.sent-1)
	if after := a.policy().reorderWindow(Data); after <= before {
		t.Errorf("waits %v, as before %v", after, before)
	}
}

// TestBogusSack checks that acknowledgements of packets that were never sent change nothing.
func TestBogusSack(t *testing.T) {
	t.Parallel()
	a := newDriven(t, nil)
	a.send(3, Data)
	for _, tc := range []struct{ upTo, last, early int }{
		{4, 0, 0}, {0, 3, 0}, {0, 0, 3}, {0, 0, 70}, {0, 0, 4000},
	} {
		var early []int
		if tc.early > 0 {
			early = []int{tc.early}
		}
		if v := a.ack(tc.upTo, tc.last, early...); v != AckBogus || len(a.done) > 0 {
			t.Errorf("%+v: verdict %d, freed %v", tc, v, a.done)
		}
	}
	if v := a.ack(1, 2, 2); v != AckNew || len(a.done) != 2 {
		t.Errorf("verdict %d, freed %v", v, a.done)
	}
	if v := a.ack(2, 2); v != AckNew || a.snd.InFlight() != 0 { // the ACK also covers packet 2
		t.Errorf("verdict %d, %d in flight", v, a.snd.InFlight())
	}
}

// TestAdaptiveAllocatesNothing runs a stream with losses after the initial allocations.
func TestAdaptiveAllocatesNothing(t *testing.T) {
	const rtt = 100 * time.Microsecond
	a, _ := newWarm(t, rtt)
	words := []uint64{0x3FFF}
	round := func() {
		a.sent = 0
		next := a.snd.next
		// the losses would shrink the window
		a.policy().cong.window, a.policy().pacer.on = 64, false
		a.snd.updateSendLimit()
		for i := range 16 {
			a.snd.Post(a.now, Token(i), a.snd.Admit(Token(i)), Data, time.Hour)
		}
		a.now = a.now.Add(rtt)
		sack := Sack{Last: next + 15, Words: words}
		a.done, _ = a.snd.OnSack(a.now, next-1, 4096, &sack, a.done[:0])
		a.now = a.now.Add(rtt)
		for a.segs.Expire(a.now) != nil {
		}
		for {
			token, _, ok := a.segs.PopResend()
			if !ok {
				break
			}
			a.snd.Repost(a.now, token, time.Hour)
		}
		a.now = a.now.Add(rtt)
		sack = Sack{Last: next}
		a.done, _ = a.snd.OnSack(a.now, next+15, 4096, &sack, a.done[:0])
	}
	for range 100 {
		round()
	}
	if n := testing.AllocsPerRun(100, round); n != 0 {
		t.Errorf("%v allocations in a round", n)
	}
}

// TestSendingPutsNothingOff checks that sending further packets does not delay the time-out.
func TestSendingPutsNothingOff(t *testing.T) {
	t.Parallel()
	const rtt = time.Millisecond
	a := newDriven(t, func(r *Rules) { r.Congestion = CongestionFixed })
	a.warm(rtt)
	n := a.sent
	began := a.now
	var at []time.Duration
	for a.now.Sub(began) < 100*time.Millisecond && a.snd.Open() {
		a.send(1, Data)
		a.after(rtt / 2).expire()
		if tokens, _ := a.again(); len(tokens) > 0 && tokens[0] == Token(n) {
			at = append(at, a.now.Sub(began))
		}
	}
	if len(at) < 3 || at[0] > 10*time.Millisecond {
		t.Errorf("the oldest packet was sent again at %v", at)
	}
}

// TestStopIdle checks the timer of an owner that sleeps until Deadline. No timer runs while nothing
// is in flight, and the usual timer runs while a packet is in flight.
func TestStopIdle(t *testing.T) {
	for _, stops := range []bool{false, true} {
		a := newDriven(t, nil)
		if stops {
			a.segs.StopIdle()
		}
		for range 3 {
			a.warm(100 * time.Microsecond)
			if idle := a.segs.Deadline() == mono.Never; idle != stops {
				t.Errorf("stops %t: with nothing in flight the deadline is at %d", stops, a.segs.Deadline())
			}
			a.send(2, Command)
			a.after(50*time.Microsecond).ack(a.sent-1, a.sent-2)
			if a.segs.Deadline() == mono.Never {
				t.Fatalf("stops %t: no timer runs for a packet in flight", stops)
			}
			a.after(time.Second).expire()
			if again, _ := a.again(); len(again) != 1 {
				t.Fatalf("stops %t: %d packets are sent again, of one that is lost", stops, len(again))
			}
			a.after(100*time.Microsecond).ack(a.sent, a.sent-1)
		}
	}
}
