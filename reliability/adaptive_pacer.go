package reliability

import (
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// pacer spreads the packets of a window over the round trip where bursts have been lost: a queue
// much shorter than what the path holds takes no whole window at once. It works in passes: each
// ACK, and each end of the timer, lets as many packets go as the path has taken since; the timer
// brings the next ones if no ACK does.
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

// refill finds out how many packets may leave now, of which next is the first: one for each time of
// length every that has passed, at most burst of them, and so many if nothing was in flight. It
// says whether the timer is needed, at the instant due, for more to leave.
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

// room is the number of packets that may leave now, of which next is the next one.
func (p *pacer) room(next seq.Num) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(next)
}

// short says whether nearly all of these have left.
func (p *pacer) short(next seq.Num) bool {
	return p.on && !next.Before(p.mark)
}
