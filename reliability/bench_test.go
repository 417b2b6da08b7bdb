package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// stream is a sender, its segments and a receiver in steady state. As many packets are in flight as
// the stream was made for, and each sent packet acknowledges another.
type stream struct {
	now  mono.Time
	snd  Sender
	rcv  Receiver
	segs *Recovery
	pool *Credits
	free []Token
	done []Token
	rule Rules
}

func newStream(t failer, inFlight int) *stream {
	t.Helper()
	s := &stream{rule: Usnic(), pool: NewCredits(WindowDefault)}
	s.segs = mustSegments(t, WindowDefault, s.rule)
	s.done = make([]Token, 0, WindowDefault)
	for i := range WindowDefault {
		s.free = append(s.free, Token(i))
	}
	s.pool.Join()
	credit := s.earn(t)
	s.snd.Init(3, streamStart, WindowDefault)
	join(s.segs, &s.snd)
	s.snd.Grant(credit)
	for range inFlight {
		s.send()
	}
	return s
}

// streamStart is the first number of the steady state, which soon wraps.
const streamStart seq.Num = 1<<32 - 500

// earn delivers enough packets to the receiver to earn a whole window of credits.
func (s *stream) earn(t failer) (credit uint16) {
	t.Helper()
	const packets = WindowDefault/4 - firstCredits/4 // a quarter of 32, of 64, ... of half a window
	s.rcv.Init(streamStart-packets, WindowDefault)
	credit = s.rcv.Grant(s.pool)
	for s.rcv.Next() != streamStart {
		for range min(max(1, credit/4), uint16(streamStart-s.rcv.Next())) {
			s.rcv.Accept(s.now, s.rcv.Next(), &s.rule)
		}
		_, credit, _ = s.rcv.TakeAck(s.pool)
	}
	if credit != WindowDefault {
		t.Fatalf("%d credits after %d packets, want %d", credit, packets, WindowDefault)
	}
	return credit
}

// send admits a packet and starts its timer.
func (s *stream) send() seq.Num {
	token := s.free[len(s.free)-1]
	s.free = s.free[:len(s.free)-1]
	n := s.snd.Admit(token)
	s.snd.Post(s.now, token, n, Data, forever)
	return n
}

// land acknowledges packets of the sender.
func (s *stream) land(packets uint32, credit uint16, dup bool) AckVerdict {
	oldest, _ := s.snd.Window()
	done, verdict := s.snd.OnAck(s.now, oldest.Add(packets)-1, credit, dup, s.done[:0])
	s.free = append(s.free, done...)
	return verdict
}

// TestNoAllocation checks that no call for a packet allocates memory, after the rings have grown.
func TestNoAllocation(t *testing.T) {
	s := newStream(t, 64)
	r := newStream(t, 0)
	resend := newStream(t, 64)
	cases := map[string]func(){
		"send and ACK": func() {
			s.now += 100
			s.send()
			s.land(1, WindowDefault, false)
		},
		"ACK of many": func() {
			for range 32 {
				s.send()
			}
			s.land(32, WindowDefault, false)
		},
		"ACKs that free nothing": func() {
			s.land(0, 0, true)
			s.land(1<<20, WindowDefault, false)
			s.land(1<<32-9, WindowDefault, false)
		},
		"receive": func() {
			r.now += 100
			n := r.rcv.Next()
			if r.rcv.Check(n) == Accept {
				r.rcv.Accept(r.now, n, &r.rule)
			}
			if r.rcv.Check(n) == Below {
				r.rcv.Repeated(r.now)
			}
			r.rcv.TakeAck(r.pool)
		},
		"receive out of order": func() {
			n := r.rcv.Next()
			for _, ahead := range []uint32{3, 1, 2, 0} {
				r.rcv.Accept(r.now, n.Add(ahead), &r.rule)
			}
			r.rcv.TakeAck(r.pool)
		},
		"time out and send again": func() {
			resend.now = resend.now.Add(2 * time.Second)
			expire(resend.segs, resend.now)
			for token, _, ok := resend.segs.PopResend(); ok; token, _, ok = resend.segs.PopResend() {
				repostAs(resend.segs, resend.now, token, forever)
			}
		},
		"duplicate ACK": func() {
			resend.now = resend.now.Add(time.Millisecond)
			resend.land(0, 0, false)
			token, _, _ := resend.segs.PopResend()
			resend.segs.Defer(token)
			token, _, _ = resend.segs.PopResend()
			repostAs(resend.segs, resend.now, token, forever)
			resend.segs.Deadline()
		},
	}
	for _, name := range []string{
		"send and ACK", "ACK of many", "ACKs that free nothing", "receive", "receive out of order",
		"time out and send again", "duplicate ACK",
	} {
		if n := testing.AllocsPerRun(2000, cases[name]); n != 0 {
			t.Errorf("%s: %v allocations", name, n)
		}
	}
	if s.snd.InFlight() != 64 || r.rcv.Next() == streamStart ||
		resend.segs.Resends(WindowDefault-1) == 0 {
		t.Error("the runs did not do what they were to measure")
	}
}

// BenchmarkSendAck measures a packet on the sending side. The packet is admitted, its timer is
// started, and an ACK of one packet or of 32 packets frees the packet.
func BenchmarkSendAck(b *testing.B) {
	for _, c := range []struct {
		name            string
		inFlight, every int
	}{
		{"inflight=1/every=1", 0, 1},
		{"inflight=64/every=1", 63, 1},
		{"inflight=64/every=32", 32, 32},
		{"inflight=4000/every=32", 3968, 32},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newStream(b, c.inFlight)
			b.ReportAllocs()
			b.ResetTimer()
			for i := 1; i <= b.N; i++ {
				s.now += 100
				s.send()
				if i%c.every == 0 && s.land(uint32(c.every), WindowDefault, false) != AckNew {
					b.Fatal("not acknowledged")
				}
			}
		})
	}
}

// BenchmarkReceive measures a packet on the receiving side, with an ACK for each packet or for 32
// packets.
func BenchmarkReceive(b *testing.B) {
	for _, c := range []struct {
		name  string
		every int
		swap  uint32 // neighbouring packets change places
	}{
		{"every=1", 1, 0},
		{"every=32", 32, 0},
		{"every=32/swapped", 32, 1},
	} {
		b.Run(c.name, func(b *testing.B) {
			s := newStream(b, 0)
			first := s.rcv.Next()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range uint32(b.N) {
				s.now += 100
				n := first.Add(i ^ c.swap)
				if s.rcv.Check(n) != Accept {
					b.Fatal("refused")
				}
				s.rcv.Accept(s.now, n, &s.rule)
				if i%uint32(c.every) == 0 {
					s.rcv.TakeAck(s.pool)
				}
			}
		})
	}
}

// BenchmarkResend measures a time-out. A segment leaves the hotel, passes through the resend list,
// and checks in again.
func BenchmarkResend(b *testing.B) {
	s := newStream(b, 64)
	b.ReportAllocs()
	b.ResetTimer()
	for n := 0; n < b.N; {
		s.now = s.now.Add(2 * time.Second)
		n += expire(s.segs, s.now)
		for token, _, ok := s.segs.PopResend(); ok; token, _, ok = s.segs.PopResend() {
			repostAs(s.segs, s.now, token, forever)
		}
	}
}

// BenchmarkExpireNothing measures the cost of the timers in every call of the progress loop.
func BenchmarkExpireNothing(b *testing.B) {
	s := newStream(b, 64)
	b.ReportAllocs()
	for b.Loop() {
		if expire(s.segs, s.now) != 0 {
			b.Fatal("expired")
		}
	}
}
