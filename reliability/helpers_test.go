package reliability

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"gobtl/hotel"
	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A deadline is rounded up to the hotel's tick, and a timer may therefore end one tick late.
const tick = time.Duration(hotel.DefaultTickNs)

// forever is the limit for a segment that only the rules limit.
const forever = time.Duration(1<<63 - 1)

// starts are first sequence numbers from which even a window of a few packets crosses the overflows
// of 16, 31 and 32 bits.
var starts = []seq.Num{
	0, 1, 1<<16 - 3, 1<<16 - 1, 1<<31 - 3, 1<<31 - 1, 1 << 31, 1<<32 - 3, 1<<32 - 1,
}

// eachStart runs a test from each number of starts.
func eachStart(t *testing.T, f func(t *testing.T, first seq.Num)) {
	t.Helper()
	for _, first := range starts {
		t.Run(fmt.Sprintf("first=%#x", uint32(first)), func(t *testing.T) { f(t, first) })
	}
}

// failer is the common part of *testing.T, *testing.B and *rapid.T.
type failer interface {
	Helper()
	Errorf(format string, args ...any)
	Fatalf(format string, args ...any)
}

// quick are rules whose times are round numbers of milliseconds, far above the hotel's tick.
func quick() Rules {
	return Rules{
		WindowPackets:    16,
		ResendTimeout:    10 * time.Millisecond,
		ResendTimeoutMax: 80 * time.Millisecond,
		DupAckHold:       2 * time.Millisecond,
		ResendsPerPass:   16,
		AckDelay:         50 * time.Microsecond,
		AckEvery:         8,
	}
}

func mustSegments(t failer, count int, rules Rules) *Recovery {
	t.Helper()
	g, err := NewRecovery(count, 1, rules)
	if err != nil {
		t.Fatalf("NewRecovery(%d, %+v): %v", count, rules, err)
	}
	return g
}

// join makes a Sender recover packets without any information from the peer.
func join(r *Recovery, s *Sender) { r.Join(s, 0, false) }

// usnicOf gives access to the segments of the profile usnic without a Sender.

func usnicOf(r *Recovery) *usnic { return r.profile.(*usnic) }

func postAs(r *Recovery, now mono.Time, t Token, owner uint32, n seq.Num, limit time.Duration) {
	r.post(now, t, owner, n, Data)
	usnicOf(r).checkin(now, t, limit)
}

func repostAs(r *Recovery, now mono.Time, t Token, limit time.Duration) {
	r.repost(now, t)
	usnicOf(r).checkin(now, t, limit)
}

func resendNow(r *Recovery, t Token) { usnicOf(r).sendAgain(t, CauseRefused) }

func fastRetransmit(r *Recovery, now mono.Time, t Token) { usnicOf(r).fastRetransmit(now, t) }

func acked(r *Recovery, t Token) { usnicOf(r).release(t) }

// expire returns how many segments have moved to the resend list.
func expire(r *Recovery, now mono.Time) int {
	before := r.ResendsWaiting()
	r.Expire(now)
	return r.ResendsWaiting() - before
}

// onAck is Sender.OnAck, and also reports whether the ACK queues a retransmission.
func onAck(s *Sender, now mono.Time, upTo seq.Num, credit uint16, dup bool,
	done []Token,
) (_ []Token, verdict AckVerdict, resend bool) {
	waiting := s.segs.ResendsWaiting()
	done, verdict = s.OnAck(now, upTo, credit, dup, done)
	return done, verdict, s.segs.ResendsWaiting() > waiting
}

// firstCredits is the number of credits that a peer has before using any.
const firstCredits = 32

// earned is the model of the credits that a peer earns by use, in numbers that do not wrap.
type earned struct {
	credits int64 // earned so far
	used    int64 // used since the credits last grew
	granted int64 // the last grant
	at      int64 // packets received in order at the time of the grant
}

// grant is the largest permitted grant after next packets have arrived in order. A peer cannot have
// used credits that it did not hold, and therefore packets beyond the last grant do not count.
func (e *earned) grant(next, window int64) int64 {
	if e.credits == 0 {
		e.credits = firstCredits
	}
	e.used += min(next-e.at, e.granted)
	if 4*e.used >= e.credits {
		e.used = 0
		if e.credits < max(window, 2*firstCredits) {
			e.credits *= 2
		}
	}
	return min(e.credits, window)
}

// free is how much of what is free in the pool the peer may have.
func (e *earned) free(free, peers int64) int64 {
	if e.credits == firstCredits {
		n := max(peers, 4)
		return (free + n - 1) / n
	}
	return free
}

// given records the actual grant.
func (e *earned) given(next, granted int64) { e.at, e.granted = next, granted }

// flight is a sender with packets in flight. Tokens count down while numbers count up, which
// reveals a confusion of the two.
type flight struct {
	snd  Sender
	segs *Recovery
	sent []Token // in the order of their numbers
}

// newFlight returns a sender with room for credit packets, and with count packets in flight that
// were posted at time 0.
func newFlight(t failer, first seq.Num, window, credit, count int) *flight {
	t.Helper()
	f := &flight{segs: mustSegments(t, count+1, quick())}
	f.snd.Init(7, first, window)
	join(f.segs, &f.snd)
	f.snd.Grant(uint16(credit))
	for i := range count {
		token := Token(count - i)
		n := f.snd.Admit(token)
		if want := first.Add(uint32(i)); n != want {
			t.Fatalf("packet %d has number %d, want %d", i, n, want)
		}
		postAs(f.segs, 0, token, f.snd.Number(), n, forever)
		f.sent = append(f.sent, token)
	}
	f.check(t)
	return f
}

func (f *flight) check(t failer) {
	t.Helper()
	if err := f.snd.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if err := f.segs.Check(); err != nil {
		t.Fatalf("%v", err)
	}
	if in, timed := f.snd.InFlight(), f.segs.InFlight(); in != timed {
		t.Fatalf("%d packets in the window, %d timed or to be resent", in, timed)
	}
}

// expire moves all packets in flight to the resend list.
func (f *flight) expire(t failer, now mono.Time) {
	t.Helper()
	posted := f.segs.InFlight() - f.segs.ResendsWaiting()
	if n := expire(f.segs, now); n != posted {
		t.Fatalf("%d segments expired, %d were posted", n, posted)
	}
}

// panics runs f, and reports whether f panicked with a message of this package.
func panics(t failer, f func()) (panicked bool) {
	t.Helper()
	defer func() {
		if r := recover(); r != nil {
			text, ok := r.(string)
			if !ok || !strings.HasPrefix(text, "reliability: ") {
				t.Errorf("panic with %v, want a message of the package", r)
			}
			panicked = true
		}
	}()
	f()
	return false
}
