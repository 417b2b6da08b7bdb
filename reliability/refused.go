package reliability

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A receiver that has no memory for an arriving packet refuses the packet, which means that it
// answers with a Nack. For the sender, a packet that was refused by a Nack is neither lost nor in
// transit. A refused packet takes no credit and no part of the congestion window, because the
// receiver has already discarded it. While a packet is refused, the sender can still send packets
// for which the receiver needs no memory. The sender retransmits the oldest refused packet at
// growing intervals, until the receiver has memory for it and accepts it.
//
//	on its way --no memory--> refused --the oldest, by a timer--> asked --taken--> the others, too
//	                             ^--------------no memory------------'

// refusals is a Sender's record of the packets that the peer has refused for lack of memory.
type refusals struct {
	count  int32         // packets refused and not retransmitted yet
	bytes  int           // bytes of the refused packets
	asking bool          // the retransmission of a refused packet is in flight
	asked  seq.Num       // the number of that packet
	at     mono.Time     // when the oldest refused packet is retransmitted; Never: none
	wait   time.Duration // the next interval between retries
}

// The interval between retransmissions of a refused packet grows to at most
// Rules.ResendTimeout/askShare.
const askShare = 4

// NoMemory records that the peer has refused segment t, a packet of sizeBytes, for lack of memory.
// The argument "limit" of NoMemory is the longest time until the first retransmission of the
// refused segment. In the profiles usnic and lossless, NoMemory does nothing, because in these
// profiles each segment has a timer that causes its retransmission.
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
		s.needBoard().setAside(p.seq)
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

// NeedsMemory reports whether an unacknowledged packet was refused by the peer for lack of memory.
// While NeedsMemory returns true, the caller should send no new packets for which the peer needs
// memory.
func (s *Sender) NeedsMemory() bool {
	a := s.policy.adaptive
	return a != nil && a.refused.some()
}

func (r *refusals) some() bool { return r.count > 0 || r.asking }

// restsRefused reports whether the peer has refused all unacknowledged packets for lack of memory,
// so that no ACK is expected.
func (a *adaptive) restsRefused(s *Sender) bool {
	return a.refused.some() && a.lostWaiting == 0 && a.onTheWay(s) == 0
}

// If the time r.at has been reached, the method "ask" queues the oldest refused packet for
// retransmission, and sets r.at to the time of the next retry. The intervals between
// retransmissions of refused packets grow.
func (a *adaptive) ask(s *Sender, now mono.Time) {
	r := &a.refused
	if r.count == 0 {
		return
	}
	if r.at <= now {
		r.at = now.Add(r.wait)
		r.wait = min(2*r.wait, max(a.shared.rules.ResendTimeout/askShare, r.wait))
		b, end := s.board, s.next
		for n := b.nextAside(s.oldest, end); n != end && !r.asking; n = b.nextAside(n+1, end) {
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

// The method "answered" makes all refused packets ready for retransmission, if the peer has
// accepted the retransmission of one refused packet.
func (a *adaptive) answered(s *Sender) {
	r := &a.refused
	if _, waits := s.Token(r.asked); waits {
		return
	}
	b, end := s.board, s.next
	for n := b.nextAside(s.oldest, end); n != end && r.count > 0; n = b.nextAside(n+1, end) {
		if p := s.segment(s.at(n)); p.refused() {
			a.forgive(s, p)
			a.lostWaiting++
		}
	}
	r.asking = false
}

// The method "forgive" ends the refused state of a packet. A packet whose refused state has ended
// counts as an ordinary packet in flight again.
func (a *adaptive) forgive(s *Sender, p *segment) {
	s.bytes += int(p.refusedBytes)
	a.refused.bytes -= int(p.refusedBytes)
	p.refusedBytes = 0
	a.refused.count--
}

// The method "refused" reports whether the peer has refused the segment's packet, so that the
// packet waits until the peer has memory for it.
func (p *segment) refused() bool { return p.refusedBytes != 0 && p.state == Posted }

// checkRefused returns an error if an invariant of the refused packets is violated, and nil
// otherwise. The argument "count" of checkRefused is the number of refused packets in the send
// window.
func (a *adaptive) checkRefused(count int32) error {
	r := &a.refused
	if count != r.count || count > 0 && (a.timer == 0 || a.timerAt > r.at.Add(time.Microsecond)) {
		return fmt.Errorf("reliability: %d packets are refused, counted %d; timer at %d, due %d",
			count, r.count, a.timerAt, r.at)
	}
	return nil
}

// refusedPackets is a bitmap of those packets in the receive window that were refused for lack of
// memory. The index of a packet's bit is its sequence number modulo the length of the bitmap.
type refusedPackets []uint64

// Refused records that the caller has refused packet n for lack of memory. Packet n must be a new
// packet in the receive window. A refused packet takes none of the peer's credits, and the peer may
// retransmit it without a credit.
func (r *Receiver) Refused(n seq.Num) {
	if !r.Selective {
		return // see ahead
	}
	rare := r.needRare()
	if rare.refused == nil {
		rare.refused = make(refusedPackets, (r.window+63)/64)
	}
	if w, bit := rare.refused.place(n); rare.refused[w]&bit == 0 {
		rare.refused[w] |= bit
		r.refused++
	}
}

// The method "taken" is called when packet n is accepted. The method "taken" removes packet n from
// the bitmap of refused packets, and reports whether the packet was in the bitmap.
func (f refusedPackets) taken(n seq.Num) bool {
	w, bit := f.place(n)
	was := f[w]&bit != 0
	f[w] &^= bit
	return was
}

func (f refusedPackets) place(n seq.Num) (word uint32, bit uint64) {
	i := uint32(n) & uint32(64*len(f)-1)
	return i / 64, 1 << (i % 64)
}
