package reliability

import (
	"fmt"
	"math/bits"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A receiver that has no memory for a packet when the packet arrives refuses the packet. A refused
// packet is neither lost nor in transit. A refused packet takes no part of the congestion window
// and no credit, because the receiver has already read and discarded it. While one packet is
// refused, packets that need no memory at the receiver can be sent. The sender retransmits the
// oldest refused packet from time to time, until the receiver has memory and accepts the packet.
//
//	on its way --no memory--> refused --the oldest, by a timer--> asked --taken--> the others, too
//	                             ^--------------no memory------------'

// refusals is a Sender's record of refused packets.
type refusals struct {
	count  int32         // packets refused and not retransmitted yet
	bytes  int           // bytes of the refused packets
	asking bool          // a refused packet was retransmitted, and is not acknowledged
	asked  seq.Num       // the number of that packet
	at     mono.Time     // when the oldest refused packet is retransmitted; Never: none
	wait   time.Duration // the next interval between retries
}

// askShare is the divisor that gives the longest interval between retransmissions of refused
// packets as a fraction of the initial time-out.
const askShare = 4

// NoMemory records that the peer has no memory for segment t in flight, a packet of
// sizeBytes. The refused segment is retransmitted, for the first time after the duration limit at
// the latest. In a profile without a congestion window NoMemory changes nothing, because the
// segment's own timer retransmits the segment.
func (s *Sender) NoMemory(now mono.Time, t Token, sizeBytes int, limit time.Duration) {
	a, p := s.policy.adaptive, s.segment(t)
	if a == nil || p.state != Posted || p.refusedBytes != 0 {
		return
	}
	r := &a.refused
	s.patient = false // an ACK is not what the packet waits for
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
		r.asking = false // packets sent after the refused one are acknowledged later
	case r.count == 0 && !r.asking:
		r.wait = min(max(a.paths[p.channel].wait(), a.shared.rules.ResendTimeoutMin), limit)
		r.at = now.Add(r.wait)
	}
	r.count++
	if a.restsRefused(s) {
		a.progressAt = longAgo // no ACK is awaited
	}
	a.lossAt = a.lossAt.Min(r.at)
	a.wake(s, now, a.lossAt)
	s.updateSendLimit()
}

// NeedsMemory reports whether the peer has refused a packet in flight for lack of memory. While
// NeedsMemory returns true, the caller should send no further packets that need memory at the peer.
func (s *Sender) NeedsMemory() bool {
	a := s.policy.adaptive
	return a != nil && a.refused.some()
}

func (r *refusals) some() bool { return r.count > 0 || r.asking }

// restsRefused reports whether the peer has refused all packets in flight for lack of memory, so
// that the sender expects no ACK.
func (a *adaptive) restsRefused(s *Sender) bool {
	return a.refused.some() && a.lostWaiting == 0 && a.onTheWay(s) == 0
}

// The method ask queues the oldest packet that the peer has refused for retransmission, at growing
// intervals.
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

// The method answered queues all other refused packets for retransmission, when the peer has
// accepted one packet that it had refused.
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

// The method forgive makes a refused packet an ordinary packet in flight again.
func (a *adaptive) forgive(s *Sender, p *segment) {
	s.bytes += int(p.refusedBytes)
	a.refused.bytes -= int(p.refusedBytes)
	p.refusedBytes = 0
	a.refused.count--
}

// refused reports whether a segment in flight waits until the peer has memory.
func (p *segment) refused() bool { return p.refusedBytes != 0 && p.state == Posted }

// checkRefused reports the first broken invariant of the refused packets. The argument count of
// checkRefused is the number of refused packets that the caller has found.
func (a *adaptive) checkRefused(count int32) error {
	r := &a.refused
	if count != r.count || count > 0 && (a.timer == 0 || a.timerAt > r.at.Add(time.Microsecond)) {
		return fmt.Errorf("reliability: %d packets are refused, counted %d; timer at %d, due %d",
			count, r.count, a.timerAt, r.at)
	}
	return nil
}

// refusedPackets is a bitmap of the packets in a Receiver's window that were refused for lack of
// memory. The index of a packet's bit in refusedPackets is the packet's sequence number modulo
// the window.
type refusedPackets struct {
	words []uint64
	count uint32
}

// Refused records a packet that Check found acceptable but the caller cannot accept now. A refused
// packet takes no credit, and its retransmission needs no credit.
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

// The method taken removes accepted packets from the bitmap of refused packets. The argument count
// of taken is the number of the packets, and n is the number of the last one.
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
