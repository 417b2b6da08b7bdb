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

// pace finds out how many packets may leave now.
func (s *Sender) pace(now mono.Time) {
	r := s.rec
	p := &r.pacer
	c, path := &r.cong, &r.paths[r.latest]
	if r.fixed || c.spread == 0 && (!c.slow || path.base <= s.segs.rules.TargetDelay/2) {
		p.on = false
		return
	}
	window := max(min(c.window, int32(s.window)), 1)
	// A bit faster than the window goes round, which is what bounds a sender.
	every := (path.srtt + r.lag) * 4 / time.Duration(5*window)
	if c.slow {
		every = (path.srtt + r.lag) / time.Duration(2*window)
	}
	every = max(every, 1)
	burst := time.Duration(max(paceBurst, window/paceShare))
	if !p.on || s.oldest == s.next {
		p.on, p.began = true, now.Add(-burst*every)
	} else {
		sent := time.Duration(s.next.Sub(p.next) + p.again)
		p.began = max(p.began.Add(sent*p.every), now.Add(-burst*every))
	}
	have := max(now.Sub(p.began), 0) / every
	p.next, p.again, p.every, p.end = s.next, 0, every, s.next.Add(uint32(have))
	p.mark = p.end - paceSpare
	p.due = max(p.began, now).Add(max(paceQuantum, burst/2) * every)
	if have < burst {
		r.wake(s, now, p.due)
	}
}

// room is the number of packets that may leave now.
func (p *pacer) room(s *Sender) int32 {
	if !p.on {
		return WindowMax
	}
	return p.end.Sub(s.next)
}

// short says whether nearly all of these have left.
func (p *pacer) short(s *Sender) bool {
	return p.on && !s.next.Before(p.mark)
}
