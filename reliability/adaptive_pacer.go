package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// A pacer spreads the packets of a congestion window evenly over the round trip, after packets sent
// in bursts have been lost. Each ACK, and each expiry of the pacer's timer, permits as many packets
// as the path has carried since the previous ACK or expiry.
type pacer struct {
	on    bool
	began mono.Time     // until then the path is busy with the packets sent so far
	every time.Duration // the time that the path takes for each packet
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

// The method refill computes how many packets may be sent now, starting with the packet number
// next. The pacer permits one packet for each elapsed interval of the length every, but at most as
// many packets at once as the argument burst says. If no packet was in flight, the pacer permits as
// many packets at once as the argument burst says. The method refill returns true if the pacer's
// timer must expire at the time p.due, when more packets may be sent.
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

// room returns the number of packets, starting with number next, that the pacer permits now.
func (p *pacer) room(next seq.Num) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(next)
}

// The method short reports whether nearly all packets that the pacer permits have been sent.
func (p *pacer) short(next seq.Num) bool {
	return p.on && !next.Before(p.mark)
}
