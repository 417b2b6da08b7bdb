package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// lapsing is a pool of credits with time. Some of the peers send one packet for each credit, and
// other peers rest.
type lapsing struct {
	creditModel
	now mono.Time
}

func newLapsing(capacity int) *lapsing {
	l := &lapsing{now: 1}
	l.pool = NewCredits(capacity)
	l.pool.At(l.now)
	return l
}

func (l *lapsing) wait(d time.Duration) {
	l.now = l.now.Add(d)
	l.pool.At(l.now)
}

// use makes a peer send all permitted packets, and renews the peer's credits, several times.
func (l *lapsing) use(t *testing.T, p *creditPeer, times int) (granted int) {
	t.Helper()
	rules := Usnic()
	for range times {
		l.wait(time.Millisecond)
		for range p.rcv.holds() {
			p.rcv.Accept(l.now, p.rcv.Next(), &rules)
		}
		granted = int(p.rcv.Grant(l.pool))
		l.check(t)
	}
	return granted
}

func (l *lapsing) check(t *testing.T) {
	t.Helper()
	if err := l.pool.Check(); err != nil {
		t.Fatal(err)
	}
	booked, lapsed := 0, 0
	for _, p := range l.peers {
		if err := p.rcv.CheckState(); err != nil {
			t.Fatal(err)
		}
		if booked += p.rcv.Booked(); p.rcv.lapsed {
			lapsed++
		}
	}
	if booked != l.pool.Granted() || lapsed != l.pool.lapsed {
		t.Fatalf("%d booked, %d lapsed; the pool says %d, %d", booked, lapsed, l.pool.Granted(),
			l.pool.lapsed)
	}
}

// TestCreditsLapse checks an active peer beside peers that have been active and are now idle or
// dead. The active peer gets nearly as many credits as it would get without the others. The idle
// peers get their shares back with their first acknowledgement.
func TestCreditsLapse(t *testing.T) {
	t.Parallel()
	for _, idle := range []int{1, 3, 40} {
		l := newLapsing(2000)
		var others []*creditPeer
		for range idle {
			p := l.join(0, 4096)
			l.use(t, p, 12)
			l.wait(creditLapse)
			others = append(others, p)
		}
		busy := l.join(1<<32-50, 4096)
		if got := l.use(t, busy, 12); got < 1900 {
			t.Errorf("%d credits of 2000 beside %d that are idle", got, idle)
		}
		back := others[0]
		rules := Usnic()
		for i := range 3 { // the peer's first packets, with an ACK of each side in between
			back.rcv.Accept(l.now, back.rcv.Next(), &rules)
			got := back.rcv.Grant(l.pool)
			l.use(t, busy, 1)
			if share := l.pool.Share(); i == 2 && (int(got) < share*9/10 || share < 900) {
				t.Errorf("back again, %d credits after two round trips, a share is %d", got, share)
			}
		}
		l.check(t)
	}
}

// TestCreditsSlow checks that a slow sender soon has no more credits than it needs, even if the
// sender is never idle.
func TestCreditsSlow(t *testing.T) {
	t.Parallel()
	l := newLapsing(2000)
	slow := l.join(0, 4096)
	if got := l.use(t, slow, 12); got < 1900 {
		t.Fatalf("%d credits without others", got)
	}
	busy := l.join(0, 4096)
	rules, got := Usnic(), 0
	for range 300 {
		slow.rcv.Accept(l.now, slow.rcv.Next(), &rules)
		slow.rcv.Grant(l.pool)
		got = l.use(t, busy, 10)
	}
	if got < 1700 {
		t.Errorf("%d credits of 2000 beside one that sends a packet every 10 ms", got)
	}
}

// TestSenderRests checks that an idle sender keeps the initial credits, or half of its credits if
// it has fewer, until the peer grants more. An active sender keeps all credits.
func TestSenderRests(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		credit   uint16
		after    time.Duration
		inFlight bool
		room     int
	}{
		{1000, creditLease - 1, false, 1000},
		{1000, creditLease, true, 999},
		{1000, creditLease, false, earnedFirst},
		{32, creditLease, false, earnedFirst},
		{11, creditLease, false, 6},
		{2, creditLease, false, 2},
		{1, creditLease, false, 1},
	} {
		s := &Sender{}
		s.Init(0, 1, 4096)
		s.Unbind()
		s.Confirm(100, 0, c.credit)
		if c.inFlight {
			s.Count()
		}
		for range 2 { // only once
			s.Rest(100 + mono.Time(c.after))
		}
		if s.Room() != c.room {
			t.Errorf("%d credits, after %v: room for %d packets, want %d", c.credit, c.after, s.Room(),
				c.room)
		}
		if c.inFlight {
			continue
		}
		if s.Confirm(100+mono.Time(c.after), 0, 1000); s.Room() != 1000 {
			t.Errorf("the next acknowledgement brings room for %d", s.Room())
		}
	}
	s := &Sender{} // the credits of the handshake are not halved
	s.Init(0, 1, 4096)
	s.Grant(20)
	if s.Rest(mono.Time(creditLease)); s.Room() != 20 {
		t.Errorf("20 credits to begin with, room for %d", s.Room())
	}
}
