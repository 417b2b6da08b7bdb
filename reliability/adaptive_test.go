package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// driven is a sender of the adaptive profile with packets in flight, driven by hand. Token i
// carries packet i.
type driven struct {
	t    failer
	segs *Recovery
	snd  Sender
	now  mono.Time
	sent int
	done []Token
}

const adaptiveFirst = seq.Num(1<<32 - 5) // the numbers wrap on the way

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

func (a *driven) policy() *adaptive { return a.snd.policy.adaptive }

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

// ack acknowledges the packets below upTo and those in early; last is the one that arrived last.
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

// again sends what is on the resend list, and returns which packets those are, and why.
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

// expire lets the timers run that are due.
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
	a.policy().pace(&a.snd, a.now) // which it is in slow start
}

// newWarm is one whose paths are measured, and the number of its next packet.
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

// The first packet after a pause is given as long as a peer takes that sleeps twice, once before it
// hears of it and once before it acknowledges; the others are not, nor is what is sent without one.
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

// A packet is lost when one that was sent later by its channel has arrived, and a while is over:
// not sooner, not when the later one went by the other channel, and only once.
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
	wantAgain(t, a) // packets of the command channel say nothing of the others
	a.after(rtt/2).ack(n, n+4, n+1, n+2, n+4, n+5)
	wantAgain(t, a) // the others may be a little late
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

// A packet that is later than one of the other channel is not lost for that: they overtake each
// other, by as much as a usual wait.
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

// A channel may become much slower than the other one at once, on a path so short that a usual wait
// says nothing: then its packets are given as long as the first probe waits.
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

// A lost copy is found lost too, by what was sent after it.
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

// While the peer stands still, packets in its socket are asked for and sent again. When it goes on
// and acknowledges the first copy of one, the sender must not take that for the latest copy, and
// all that was sent before this one for lost.
func TestEarlierCopyArrives(t *testing.T) {
	t.Parallel()
	const rtt, count = time.Millisecond, 20
	a, n := newWarm(t, rtt)
	a.send(3, Data)
	a.after(rtt).ack(n, n+2, n+1, n+2)
	a.after(rtt / 3).expire()
	wantAgain(t, a, n)
	a.after(10*time.Microsecond).send(count, Data)
	a.after(5 * rtt).expire() // the peer has read nothing yet
	wantAgain(t, a, n)
	a.after(2*rtt).ack(n+3, n) // and now the first copy
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

// If nothing but copies arrives, all that was sent before them is found lost, on both channels, a
// little later: the peer would have acknowledged it by then.
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

// Packets that come late, within a round trip, are not lost, and later ones are waited for longer.
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

// Without news the oldest packet is sent again after about two round trips, and then at growing
// intervals.
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

// A time-out because the peer, or this side, had no processor for a while says nothing of the other
// packets: their ACKs are only late.
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

// The first guess is the rules', and the first measured round trip replaces it at once.
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

// What is sent again is bounded: a window at once, and a share of what arrives later.
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

// Copies that arrive beside the original are counted, and make the sender more patient.
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

// Acknowledgements of what was never sent change nothing.
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
	if v := a.ack(2, 2); v != AckNew || a.snd.InFlight() != 0 { // it covers packet 2 as well
		t.Errorf("verdict %d, %d in flight", v, a.snd.InFlight())
	}
}

// TestAdaptiveAllocatesNothing runs a stream with losses once it is warm.
func TestAdaptiveAllocatesNothing(t *testing.T) {
	const rtt = 100 * time.Microsecond
	a, _ := newWarm(t, rtt)
	words := []uint64{0x3FFF}
	round := func() {
		a.sent = 0
		next := a.snd.next
		a.policy().cong.window, a.policy().pacer.on = 64, false // so much is lost that it would shrink
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

// Whoever goes on sending does not put off the time-out: it comes as if nothing were sent.
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

// Of an owner who sleeps until Deadline no timer runs while nothing is in flight, and as ever while
// something is.
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
