package reliability

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A receiver may have no memory for a packet for now, which it says. Such a packet is not lost, and
// not on its way any more: it takes no place of the congestion window, and none of the credits, for
// it was read. So what needs no memory goes on behind it. It comes again when there may be some:
//
//	on its way --no memory--> refused --the oldest, by a timer--> asked --taken--> the others, too
//	                             ^--------------no memory------------'

// refusals is what a Sender knows of them.
type refusals struct {
	count  int32         // packets in flight that were refused and are not sent again yet
	bytes  int           // of these
	asking bool          // one was sent again, and is not acknowledged
	asked  seq.Num       // that one
	at     mono.Time     // when the oldest is sent again; Never: there was none
	wait   time.Duration // until the next one is
}

// askShare is the part of the first time-out that is the longest time between two questions.
const askShare = 4

// NoMemory notes that the peer has no memory for a segment in flight, a packet of so many bytes: it
// is sent again when there may be some, first after limit at the latest. (In the profiles without a
// congestion window its own timer does that, and this changes nothing.)
func (s *Sender) NoMemory(now mono.Time, t Token, sizeBytes int, limit time.Duration) {
	a, p := s.policy.adaptive, s.segment(t)
	if a == nil || p.state != Posted || p.refusedBytes != 0 {
		return
	}
	r := &a.refused
	s.patient = false // what it waits for is no ACK
	if p.lost {
		a.lostWaiting--
	} else {
		p.lost = true
		a.lost++
		s.setAside(p.seq)
	}
	p.cause, p.refusedBytes = CauseMemory, uint16(min(max(sizeBytes, 1), 1<<16-1))
	s.bytes -= int(p.refusedBytes)
	r.bytes += int(p.refusedBytes)
	switch {
	case r.asking && (r.asked == p.seq || !a.selective && p.seq.Before(r.asked)):
		r.asking = false // what comes behind this one is acknowledged after it
	case r.count == 0 && !r.asking:
		r.wait = min(max(a.paths[p.channel].wait(), a.shared.rules.ResendTimeoutMin), limit)
		r.at = now.Add(r.wait)
	}
	r.count++
	if a.restsRefused(s) {
		a.progressAt = longAgo // nothing is waited for
	}
	a.lossAt = a.lossAt.Min(r.at)
	a.wake(s, now, a.lossAt)
	s.updateSendLimit()
}

// NeedsMemory says whether the peer had no memory for something that is in flight: what needs some,
// too, is better kept.
func (s *Sender) NeedsMemory() bool {
	a := s.policy.adaptive
	return a != nil && a.refused.some()
}

func (r *refusals) some() bool { return r.count > 0 || r.asking }

// restsRefused says whether all that is in flight was refused, or is to be sent again for it: no
// answer is due.
func (a *adaptive) restsRefused(s *Sender) bool {
	return a.refused.some() && a.lostWaiting == 0 && a.onTheWay(s) == 0
}

// ask has the oldest of the refused packets sent again, in growing intervals.
func (a *adaptive) ask(s *Sender, now mono.Time) {
	r := &a.refused
	if r.count == 0 {
		return
	}
	if r.at <= now {
		r.at = now.Add(r.wait)
		r.wait = min(2*r.wait, max(a.shared.rules.ResendTimeout/askShare, r.wait))
		for n := s.nextAside(s.oldest); n != s.next && !r.asking; n = s.nextAside(n + 1) {
			if t := s.at(n); s.segment(t).refused() {
				a.sendAgain(s, t, CauseMemory)
				r.asking, r.asked = true, n
			}
		}
	}
	if r.count > 0 {
		a.lossAt = a.lossAt.Min(r.at)
	}
}

// answered has all refused packets sent again, as what is lost, when what was sent to ask for
// memory has arrived.
func (a *adaptive) answered(s *Sender) {
	r := &a.refused
	if _, waits := s.Token(r.asked); waits {
		return
	}
	for n := s.nextAside(s.oldest); n != s.next && r.count > 0; n = s.nextAside(n + 1) {
		if p := s.segment(s.at(n)); p.refused() {
			a.forgive(s, p)
			a.lostWaiting++
		}
	}
	r.asking = false
}

// forgive has a refused packet count as others do.
func (a *adaptive) forgive(s *Sender, p *segment) {
	s.bytes += int(p.refusedBytes)
	a.refused.bytes -= int(p.refusedBytes)
	p.refusedBytes = 0
	a.refused.count--
}

// refused says whether a segment in flight waits until the peer has memory.
func (p *segment) refused() bool { return p.refusedBytes != 0 && p.state == Posted }

// checkRefused reports the first broken invariant of them, of which so many were counted.
func (a *adaptive) checkRefused(count int32) error {
	r := &a.refused
	if count != r.count || count > 0 && (a.timer == 0 || a.timerAt > r.at.Add(time.Microsecond)) {
		return fmt.Errorf("reliability: %d packets are refused, counted %d; timer at %d, due %d",
			count, r.count, a.timerAt, r.at)
	}
	return nil
}

// refusedPackets are those of a Receiver's window that were read and could not be taken for now, as
// bits by their numbers modulo the window, or 64 if that is more. There are none before the first.
type refusedPackets struct {
	words []uint64
	count uint32
}

// Refused books a packet that Check found acceptable, and that was read and cannot be taken for
// now. It takes no credit any more: it is sent again without one.
func (r *Receiver) Refused(n seq.Num) {
	if !r.Selective {
		return // see ahead
	}
	f := &r.refused
	if f.words == nil {
		f.words = make([]uint64, (r.window+63)/64)
	}
	if w, bit := f.place(n); f.words[w]&bit == 0 {
		f.words[w] |= bit
		f.count++
	}
}

// taken books that count packets have been accepted, of which n is the last.
func (f *refusedPackets) taken(n seq.Num, count uint32) {
	for i := range count {
		if w, bit := f.place(n - seq.Num(i)); f.words[w]&bit != 0 {
			f.words[w] &^= bit
			f.count--
		}
	}
}

func (f *refusedPackets) place(n seq.Num) (word uint32, bit uint64) {
	i := uint32(n) & uint32(64*len(f.words)-1)
	return i / 64, 1 << (i % 64)
}

func (f *refusedPackets) check(window uint32) error {
	n := uint32(0)
	for _, w := range f.words {
		n += uint32(bits.OnesCount64(w))
	}
	if n != f.count || n > window {
		return fmt.Errorf("reliability: %d packets refused, %d bits set", f.count, n)
	}
	return nil
}
