package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// pacer spreads the packets of a window over the round trip where bursts have been lost: a queue
// much shorter than the path's capacity cannot absorb a whole window at once. It works in steps:
// each ACK, and each expiry of the timer, releases as many packets as the path has carried since;
// the timer releases the next ones if no ACK does.
type pacer struct {
	on    bool
	began mono.Time     // what was sent so far occupies the path until then
	every time.Duration // for each packet
	next  seq.Num       // what was sent when that was counted
	again int32         // packets sent again since
	end   seq.Num       // first number that has to wait
	mark  seq.Num       // the timer is needed from there on
	due   mono.Time     // when that may go
}

const (
	paceBurst   = 16 // packets that may leave at once, whatever the pace
	paceQuantum = 8  // packets that are worth a pass
	paceShare   = 8  // of a window, that may leave at once
	paceSpare   = 9  // packets that may not be used up: places are kept for small messages
)

// refill computes how many packets may leave now, from number next on: one for each elapsed
// interval every, at most burst, and burst if nothing was in flight. It says whether the timer is
// needed, at the instant due, to release more.
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

// room is the number of packets that may leave now, from number next on.
func (p *pacer) room(next seq.Num) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(next)
}

// short says whether nearly all released packets have left.
func (p *pacer) short(next seq.Num) bool {
	return p.on && !next.Before(p.mark)
}
