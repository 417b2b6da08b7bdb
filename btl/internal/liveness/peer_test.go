package liveness

import (
	"math/rand/v2"
	"testing"
	"time"
)

var rules = Rules{PeerTimeout: 16 * time.Second, KeepAlive: 8 * time.Second}

const second = Time(time.Second)

// A peer that owes an acknowledgement is dead when its time is over and enough resends were in
// vain: fewer for a peer of which nothing was heard.
func TestVerdictAck(t *testing.T) {
	const begin = 100 * second
	for _, c := range []struct {
		name        string
		owes, heard time.Duration // before now
		resends     int
		away, grace time.Duration
		dead        bool
		within      time.Duration
	}{
		{"in time", 15 * time.Second, 15 * time.Second, 99, 0, 0, false, time.Second},
		{"too few resends", 16 * time.Second, 16 * time.Second, 2, 0, 0, false, time.Millisecond},
		{"silent", 16 * time.Second, 16 * time.Second, 3, 0, 0, true, time.Millisecond},
		{"heard, too few resends", 17 * time.Second, time.Second, 7, 0, 0, false, time.Second},
		{"heard", 17 * time.Second, time.Second, 8, 0, 0, true, time.Second},
		{"granted", 17 * time.Second, 17 * time.Second, 99, 2 * time.Second, 0, false, time.Second},
		{"unread", 17 * time.Second, 17 * time.Second, 9, 0, 4 * time.Second, false, time.Millisecond},
	} {
		var p Peer
		p.Begin(begin)
		p.Grant(c.away)
		now := begin + 1000*second
		p.FirstInFlight(now.Add(-c.owes))
		p.Heard(now.Add(-c.heard), 0)
		for i := range c.resends { // all of them before now
			p.Resent(now.Add(-time.Duration(c.resends-i)), &rules, true, true, false)
		}
		v := p.Verdict(now, &rules, Ack, c.grace)
		if v.Dead != c.dead || v.Owed != c.owes || v.Tries != c.resends || v.Within != c.within {
			t.Errorf("%s: %+v", c.name, v)
		}
		if err := p.Check(now); err != nil {
			t.Errorf("%s: %v", c.name, err)
		}
	}
}

// The reason of a verdict names the channels by which no answer came, and the one that was heard.
func TestVerdictWhy(t *testing.T) {
	const now = 1000 * second
	for _, c := range []struct {
		debt    Debt
		heard   time.Duration // before now
		channel int
		want    string
	}{
		{Ack, 20 * time.Second, 1, "both channels are silent: a packet is not acknowledged for 30s, " +
			"sent again 9 times"},
		{Ack, time.Second, 0, "the data channel is not answered: a packet is not acknowledged for " +
			"30s, sent again 9 times by it; the peer was heard by the command channel 1s ago"},
		{Ack, 2 * time.Second, 1, "the data channel is not answered: a packet is not acknowledged for " +
			"30s, sent again 9 times by it; the peer was heard by the data channel 2s ago"},
		{Sign, 20 * time.Second, 0, "both channels are silent for 20s, asked 3 times"},
		{Confirm, 20 * time.Second, 1, "both channels are silent for 20s, asked 3 times"},
	} {
		var p Peer
		p.Begin(now.Add(-40 * time.Second))
		p.FirstInFlight(now.Add(-30 * time.Second))
		p.Heard(now.Add(-c.heard), c.channel)
		for i := range 9 {
			p.Resent(now.Add(time.Duration(i-9)), &rules, true, true, false)
		}
		for range 3 {
			p.Asked(now.Add(-16 * time.Second))
		}
		if v := p.Verdict(now, &rules, c.debt, 0); !v.Dead || v.Why() != c.want {
			t.Errorf("%v, heard %v ago by %d: dead %v: %s", c.debt, c.heard, c.channel, v.Dead, v.Why())
		}
	}
}

// What the peer says counts: an acknowledgement of the oldest packet begins its time anew, one of
// another packet does not.
func TestVerdictOldest(t *testing.T) {
	var p Peer
	p.Begin(second)
	p.FirstInFlight(second)
	p.OldestIs(second, 7)
	for i := range 20 {
		p.Resent(second*Time(2+i), &rules, true, false, false)
	}
	p.OldestIs(21*second, 7)
	p.Heard(21*second, 0)
	if v := p.Verdict(21*second, &rules, Ack, 0); !v.Dead || v.Owed != 20*time.Second {
		t.Errorf("the oldest packet stays: %+v", v)
	}
	p.OldestIs(21*second, 8)
	if v := p.Verdict(21*second, &rules, Ack, 0); v.Dead || v.Owed != 0 || v.Tries != 0 {
		t.Errorf("the oldest packet is acknowledged: %+v", v)
	}
}

// A peer that is asked is dead after several questions in vain, when its time is over. One that
// owes a confirmation is judged from when it owes it, one that owes a sign of life is not. One that
// was idle has its time from the second question on, too.
func TestVerdictAsked(t *testing.T) {
	var p Peer
	p.Begin(second)
	p.FirstInFlight(10 * second)
	for i := range TriesMin + 1 {
		for now, dead := range map[Time]bool{16 * second: false, 17 * second: i == TriesMin} {
			if v := p.Verdict(now, &rules, Sign, 0); v.Dead != dead || v.Tries != i {
				t.Errorf("%d questions, at %d: %+v", i, now, v)
			}
		}
		if v := p.Verdict(17*second, &rules, Confirm, 0); v.Dead || v.Owed != 7*time.Second {
			t.Errorf("owes for 7 s: %+v", v)
		}
		if i < TriesMin && p.Asked(3*second) != (i > 0) {
			t.Errorf("question %d", i)
		}
	}
	v := p.Verdict(17*second, &rules, Sign, 0)
	if d := v.Next(time.Hour); d != time.Second {
		t.Errorf("a question that is missing: %v", d)
	}
	p.Heard(17*second, 0)
	if v = p.Verdict(17*second, &rules, Sign, 0); v.Dead || v.Tries != 0 ||
		v.Next(time.Hour) != rules.PeerTimeout {
		t.Errorf("heard: %+v", v)
	}
	for range TriesMin {
		p.Asked(30 * second)
	}
	for away := range Time(2) {
		p.Grant(time.Duration(away * second))
		for now, dead := range map[Time]bool{42*second - 1: false, 42 * second: true} {
			if v := p.Verdict(now+away*second, &rules, Idle, 0); v.Dead != dead {
				t.Errorf("idle, asked again at 30 s, at %d, away %d s: %+v", now, away, v)
			}
		}
	}
}

// Resends right after another, while packets are here that were not read yet, say nothing of the
// peer: this side was stopped.
func TestResentUnread(t *testing.T) {
	var p Peer
	p.Begin(second)
	ask := 0
	for i := range 10 {
		if p.Resent(second+Time(i), &rules, false, true, true) {
			ask++
		}
	}
	if p.silentResends != 1 || ask != 0 {
		t.Errorf("%d resends count, %d questions", p.silentResends, ask)
	}
	for i := range 4 {
		if p.Resent(Time(3+i)*second, &rules, false, true, true) {
			ask++
		}
	}
	if p.silentResends != 5 || ask != 3 {
		t.Errorf("%d resends count, %d questions", p.silentResends, ask)
	}
	if p.Resent(7*second, &rules, false, false, false) || p.silentResends != 5 {
		t.Error("a resend for another reason counts")
	}
}

// The nonce of the question whether a peer has restarted stays until the peer is heard, and answers
// nothing from then on.
func TestLifeQuestion(t *testing.T) {
	var p Peer
	p.Begin(second)
	if p.MayAskLife(second+Time(lifeRound)) || !p.MayAskLife(second+Time(lifeRound)+1) {
		t.Error("asked too early, or never")
	}
	if p.AnswersLife(0) || p.LifeNonce() != 0 {
		t.Error("nothing was asked")
	}
	p.AskedLife(2*second, 5)
	if p.LifeNonce() != 5 || !p.AnswersLife(5) || p.AnswersLife(6) || p.MayAskLife(2*second) {
		t.Error("the question is asked")
	}
	p.Heard(2*second, 0)
	if p.LifeNonce() != 0 || p.AnswersLife(5) {
		t.Error("the question is over")
	}
}

// An answer before the question says nothing, one after it does, once.
func TestIsThere(t *testing.T) {
	var p Peer
	p.Answered(2 * second)
	if p.IsThere() {
		t.Error("not asked")
	}
	if p.AskedThere(3 * second); p.IsThere() {
		t.Error("not answered")
	}
	if p.AnsweredBy(0, 3*second); !p.IsThere() || p.Unanswered(5*second) != 2*time.Second {
		t.Error("answered")
	}
	if p.ForgetThere(); p.IsThere() {
		t.Error("forgotten")
	}
}

// A sign of life is due after KeepAlive, or at once if others wait for it.
func TestSignDue(t *testing.T) {
	var p Peer
	p.Begin(second)
	never := Rules{PeerTimeout: rules.PeerTimeout, KeepAlive: -1}
	if d := p.SignDue(3*second, &rules); d != 6*time.Second {
		t.Errorf("after 2 s: %v", d)
	}
	if d := p.SignDue(99*second, &never); d != Forever {
		t.Errorf("without KeepAlive: %v", d)
	}
	p.Press()
	if d := p.SignDue(3*second, &never); d != 0 || !p.Pressed {
		t.Errorf("pressed: %v", d)
	}
	p.Heard(3*second, 0)
	if d := p.SignDue(3*second, &rules); d != rules.KeepAlive || p.Pressed {
		t.Errorf("pressed, and heard: %v", d)
	}
	if d := p.SignDue(99*second, &rules); d != 0 {
		t.Errorf("silent: %v", d)
	}
}

// Whenever the owner looks when it is told to, no channel is silent for longer than KeepAlive; and
// a channel that is used is asked by seldom.
func TestSilentChannels(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 0))
		var p Peer
		var sent Sent
		now := second
		p.BeginChannels(now, sent)
		latest, asked := [Channels]Time{now, now}, 0
		busy := rnd.IntN(3)
		at := now.Add(rules.KeepAlive / 2)
		for range 1000 {
			now += Time(rnd.Int64N(int64(time.Second)))
			for c := range busy { // these channels are used
				sent[c]++
				latest[c] = now
			}
			if now < at {
				continue
			}
			ask, next := p.SilentChannels(now, &rules, sent, Channels)
			for c, yes := range ask {
				if yes {
					sent[c]++
					p.AskedBy(c, now, sent[c])
					p.AnsweredBy(c, now)
					latest[c] = now
					if asked++; c < busy {
						t.Fatalf("seed %d: channel %d is used, and asked by", seed, c)
					}
				}
				if quiet := now.Sub(latest[c]); quiet > rules.KeepAlive+time.Second {
					t.Fatalf("seed %d: channel %d is silent for %v", seed, c, quiet)
				}
			}
			if err := p.Check(now); err != nil {
				t.Fatal(err)
			}
			at = now.Add(next)
		}
		if (asked == 0) != (busy == Channels) {
			t.Errorf("seed %d: %d channels are used, asked %d times", seed, busy, asked)
		}
	}
}

// A question by a channel that is not answered is asked again after a quarter of KeepAlive.
func TestSilentChannelAskedAgain(t *testing.T) {
	var p Peer
	p.BeginChannels(second, Sent{})
	now := second.Add(rules.KeepAlive)
	ask, _ := p.SilentChannels(now, &rules, Sent{}, 1)
	if !ask[0] || ask[1] {
		t.Fatalf("asks by %v", ask)
	}
	p.AskedBy(0, now, 1)
	now = now.Add(rules.KeepAlive / 4)
	if ask, _ = p.SilentChannels(now, &rules, Sent{1}, 1); !ask[0] {
		t.Error("not asked again")
	}
	p.AskedBy(0, now, 2)
	p.AnsweredBy(0, now)
	now = now.Add(rules.KeepAlive / 4)
	if ask, _ = p.SilentChannels(now, &rules, Sent{2}, 1); ask[0] {
		t.Error("asked again, though it was answered")
	}
}

// What happens later than now is noticed.
func TestCheck(t *testing.T) {
	for name, late := range map[string]func(p *Peer){
		"heard":   func(p *Peer) { p.Heard(2, 0) },
		"owes":    func(p *Peer) { p.FirstInFlight(2) },
		"acked":   func(p *Peer) { p.Acked(2) },
		"oldest":  func(p *Peer) { p.OldestAnswered(2) },
		"resent":  func(p *Peer) { p.Resent(2, &rules, false, true, false) },
		"answer":  func(p *Peer) { p.Answered(2) },
		"channel": func(p *Peer) { p.AskedBy(1, 2, 0) },
	} {
		var p Peer
		if err := p.Check(1); err != nil {
			t.Fatal(err)
		}
		if late(&p); p.Check(1) == nil || p.Check(2) != nil {
			t.Errorf("%s: %v, %v", name, p.Check(1), p.Check(2))
		}
	}
}

// A count of attempts stays at its largest value, and does not begin again at 0.
func TestTriesStayAtMost(t *testing.T) {
	var p Peer
	p.Asked(second)
	for i := range 1 << 16 {
		if !p.Asked(second) {
			t.Fatalf("probe %d counts as the first one", i+2)
		}
	}
}
