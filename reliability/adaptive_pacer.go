package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A pacer spreads the packets of a congestion window evenly over the round trip, for example after
// losses. At each ACK, and whenever the pacer's timer expires, the pacer permits as many new
// packets as the path could have carried since it finished carrying all earlier packets.
type pacer struct {
	on    bool
	began mono.Time     // when the path has carried all packets sent so far
	every time.Duration // the time that the path takes to carry a packet
	next  seq.Num       // the next number to be sent, at the latest refill
	again int32         // retransmissions since the latest refill
	end   seq.Num       // first number that may not be sent yet
	mark  seq.Num       // the timer is needed from this number on
	due   mono.Time     // when the timer releases more packets
}

const (
	paceBurst   = 16 // packets that may be sent at once, whatever the pace
	paceQuantum = 8  // the least number of packets for which the timer expires
	paceShare   = 8  // divisor of the window that may be sent at once
	paceSpare   = 9  // packets that may stay unused, reserved for small messages
)

// The method "refill" computes how many new packets may be sent at the time "now". The argument
// "next" of the method "refill" is the next sequence number to be sent. The argument "every" of the
// method "refill" is the time that the path takes to carry one packet, and the argument "burst" is
// the largest number of packets that may be sent at once. If the argument "idle" is true, no packet
// is in flight, and the pacer permits "burst" packets at once. The method "refill" reports whether
// a timer is needed that expires at the time p.due, when the pacer permits more packets.
func (p *pacer) refill(now mono.Time, next seq.Num, idle bool, every, burst time.Duration) bool {
	if !p.on || idle {
		p.on, p.began = true, now.Add(-burst*every)
	} else {
		sent := time.Duration(next.Sub(p.next) + p.again)
		p.began = max(p.began.Add(sent*p.every), now.Add(-burst*every))
	}
	have := max(now.Sub(p.began), 0) / every
	p.next, p.again, p.every, p.end = next, 0, every, next.Add(uint32(have))
	p.mark = p.end - paceSpare
	p.due = max(p.began, now).Add(max(paceQuantum, burst/2) * every)
	return have < burst
}

// The method "room" returns how many new packets the pacer permits at present. The argument "next"
// of the method "room" is the next sequence number to be sent.
func (p *pacer) room(next seq.Num) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(next)
}

// The method "short" reports whether the sender has sent nearly all packets that the pacer permits
// at present.
func (p *pacer) short(next seq.Num) bool {
	return p.on && !next.Before(p.mark)
}
