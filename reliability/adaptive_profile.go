package reliability

import (
	"fmt"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
)

func newAdaptive(peers int, rules *Rules) (*adaptiveShared, error) {
	timers, err := hotel.New[*Sender](hotel.Config{Rooms: peers, TickNs: adaptiveTickNs})
	first := int32(rules.InitialWindow)
	if rules.Congestion == CongestionFixed {
		first = unlimited
	}
	return &adaptiveShared{rules: rules, timers: timers, first: first}, err
}

// The method "begin" returns a new loss-recovery state for a Sender that is about to send its first
// packet.
func (shared *adaptiveShared) begin(s *Sender) *adaptive {
	a := &adaptive{
		shared: shared, peerDelay: s.policy.peerDelay, selective: s.selective,
		resendBudget: budgetFirst, waitMax: shared.rules.ResendTimeoutMax,
		lossAt: mono.Never, roundEnd: s.next, newest: s.next - 1,
		sentAt: [channels]mono.Time{longAgo, longAgo}, ackedAt: longAgo, progressAt: longAgo,
		restartedAt: longAgo, sweepAt: mono.Never,
		fixed: shared.rules.Congestion == CongestionFixed, untested: untestedRounds,
	}
	a.cong.init(shared.rules)
	a.cong.calm = s.next
	a.setWait()
	return a
}

func (shared *adaptiveShared) deadline() mono.Time { return shared.timers.Deadline() }

func (shared *adaptiveShared) running() int { return shared.timers.Len() }

func (shared *adaptiveShared) stopIdle() { shared.stops = true }

func (shared *adaptiveShared) counts() Counts { return shared.counted }

func (shared *adaptiveShared) checkTimers() error { return nil }

func (shared *adaptiveShared) expire(now mono.Time) *Sender {
	s, _, ok := shared.timers.Evict(now)
	if !ok {
		return nil
	}
	s.policy.adaptive.expired(s, now)
	s.updateSendLimit()
	return s
}

// The method "expired" is called when the timer of a Sender has expired, and does the work that is
// due at this time, such as a retransmission.
func (a *adaptive) expired(s *Sender, now mono.Time) {
	a.timer, a.timerAt = 0, mono.Never
	if s.oldest == s.next {
		a.pace(s, now)
		return
	}
	if a.lossAt <= now {
		a.findLost(s, now)
	}
	if due := a.due(s); due <= now {
		a.timeout(s, now)
	}
	if next := a.due(s).Min(a.lossAt); next != mono.Never {
		a.wake(s, now, max(next, now.Add(time.Microsecond)))
	}
	a.pace(s, now)
}

func (a *adaptive) check(s *Sender) error {
	var lost, waiting, refused int32
	waits := false
	for n := s.oldest; n != s.next; n++ {
		t := s.at(n)
		here := t != noToken && (s.segment(t).state == Resend || s.segment(t).lost)
		if _, aside := s.board.marked(n); aside != here {
			return fmt.Errorf("reliability: packet %d is lost: %t, set aside: %t", n, here, aside)
		}
		switch {
		case t == noToken:
		case s.segment(t).state == Resend:
			lost++
		case s.segment(t).refused():
			lost++
			refused++
		case s.segment(t).state == Posted && s.segment(t).lost:
			lost++
			waiting++
		case s.segment(t).state == Posted:
			waits = true
		}
	}
	switch {
	case lost != a.lost || waiting != a.lostWaiting:
		return fmt.Errorf("reliability: %d packets lost, %d waiting: counted %d, %d", lost, waiting,
			a.lost, a.lostWaiting)
	case s.patient && (s.next.Sub(s.oldest) != 1 || lost > 0 || !s.segment(s.at(s.oldest)).lone):
		return fmt.Errorf("reliability: window [%d, %d) is no lone answer, but waited for as one",
			s.oldest, s.next)
	case s.oldest != s.next && s.at(s.oldest) == noToken:
		return fmt.Errorf("reliability: oldest packet %d has arrived", s.oldest)
	case waits && a.timer == 0:
		return fmt.Errorf("reliability: packets in flight without a timer")
	case waits && a.timerAt > a.due(s).Add(time.Microsecond):
		return fmt.Errorf("reliability: the timer ends at %d, the time is up at %d", a.timerAt, a.due(s))
	case waits && a.pacer.short(s.next) && a.timerAt > a.pacer.due.Add(time.Microsecond):
		return fmt.Errorf("reliability: the timer ends at %d, others may go at %d", a.timerAt,
			a.pacer.due)
	case a.cong.window < min(windowLeast, int32(s.window)) || a.resendBudget < 0:
		return fmt.Errorf("reliability: window of %d packets, %d tokens", a.cong.window, a.resendBudget)
	}
	if err := a.checkRefused(refused); err != nil {
		return err
	}
	if a.timer != 0 {
		if who, ok := a.shared.timers.Knock(a.timer); !ok || who != s {
			return fmt.Errorf("reliability: the timer of sender %d is not its own", s.number)
		}
	}
	return nil
}
