package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// pacer spreads the packets of a window over the round trip where bursts have been lost. A queue
// much shorter than the path's capacity cannot absorb a whole window at once. The pacer works in
// steps. Each ACK, and each expiry of the timer, releases as many packets as the path has carried
// since the previous step. The pacer's timer releases the next packets if no ACK does.
type pacer struct {
	on    bool
	began mono.Time     // the path is occupied until then by the packets sent so far
	every time.Duration // the time that the path takes for each packet
	next  seq.Num       // the next number to be sent, at the latest refill
	again int32         // retransmissions since the latest refill
	end   seq.Num       // first number that may not be sent yet
	mark  seq.Num       // the timer is needed from this number on
	due   mono.Time     // when the timer releases more packets
}

const (
	paceBurst   = 16 // packets that may be sent at once, whatever the pace
	paceQuantum = 8  // packets that are worth a call of the progress loop
	paceShare   = 8  // divisor of the window that may be sent at once
	paceSpare   = 9  // packets that may stay unused, reserved for small messages
)

// refill computes how many packets may be sent now, from number next on. One packet is released for
// each elapsed interval every, up to burst packets. If nothing was in flight, burst packets are
// released. The result of refill says whether the timer is needed, at the instant due, to release
// more packets.
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

// room is the number of packets that may be sent now, from number next on.
func (p *pacer) room(next seq.Num) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(next)
}

// short reports whether nearly all released packets have been sent.
func (p *pacer) short(next seq.Num) bool {
	return p.on && !next.Before(p.mark)
}
