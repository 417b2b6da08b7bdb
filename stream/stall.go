package stream

import (
	"slices"
	"time"

	"gobtl/internal/mono"
)

const (
	// stallMost is the longest uninterrupted time for which receivers without a free region may delay
	// the datagrams of all streams of their port ("stop the port"). In the long run, all receivers
	// together may stop their port for at most 1/stallParts of the time.
	stallMost  = 50 * time.Millisecond
	stallParts = 4
	// If the time for which receivers may still stop the port is shorter than stallLeast, no receiver
	// stops the port.
	stallLeast = time.Millisecond
	// stallAsks is the time after which a receiver that no longer asks to stop the port loses its
	// turn.
	stallAsks = 100 * time.Millisecond
)

// stall limits the time for which the receivers of a port with the policy Block stop the port.
// While a receiver stops the port, the datagrams of all streams of the port wait until this
// receiver has a free region. If several receivers want to stop the port, they stop it one after
// another, in the order of their requests.
type stall struct {
	// The field "left" is the time for which receivers may still stop the port, as of the time "at".
	// If receivers have stopped the port for longer than permitted, "left" is negative.
	left   time.Duration
	at     mono.Time // begin of the present stop, or latest time for which "left" was calculated
	holder *Receiver // the receiver that stops the port, or nil
	// The field "ended" is the sum of the lengths of all past stops of the port.
	ended time.Duration
	// The slice "turns" is the queue of the receivers that wait for their turn to stop the port.
	turns []*Receiver
}

// The method "may" reports whether the receiver r is allowed to stop the port. The caller calls
// "may" for each datagram for which r has no free region.
func (s *stall) may(r *Receiver, now mono.Time) bool {
	stops := s.holder != nil && now.Sub(s.at) < s.left
	if stops && s.holder == r {
		return true
	}
	first := s.ask(r, now)
	if stops {
		return false
	}
	s.end(s.holder, now)
	if s.left = min(s.left+now.Sub(s.at)/stallParts, stallMost); s.at == 0 {
		s.left = stallMost
	}
	s.at = now
	if !first || s.left < stallLeast {
		return false
	}
	s.next()
	s.holder = r
	return true
}

// ask records that the receiver r wants to stop the port, and reports whether it is the turn of r.
func (s *stall) ask(r *Receiver, now mono.Time) bool {
	r.asksAt = now
	if !r.asks {
		r.asks = true
		s.turns = append(s.turns, r)
	}
	for now.Sub(s.turns[0].asksAt) > stallAsks {
		s.next()
	}
	return s.turns[0] == r
}

// The method "next" removes the first receiver from the list of turns.
func (s *stall) next() {
	s.turns[0].asks = false
	s.turns = slices.Delete(s.turns, 0, 1)
}

// end records that the receiver r no longer stops the port. If r does not stop the port, the method
// "end" does nothing.
func (s *stall) end(r *Receiver, now mono.Time) {
	if s.holder == r && r != nil {
		took := now.Sub(s.at)
		s.left = max(s.left-took, -stallMost)
		s.ended += took
		s.at, s.holder = now, nil
	}
}

// The method "stopped" returns the total time for which receivers have stopped the port up to now.
func (s *stall) stopped(now mono.Time) time.Duration {
	if s.holder == nil {
		return s.ended
	}
	return s.ended + now.Sub(s.at)
}

// allowForStops prolongs the time limits of the receiver r by the time for which its datagrams can
// have waited at the port. While polled datagrams wait because r itself has no free region, both
// time limits for late datagrams (Config.Grace, and Grace plus Timeout) begin anew. If another
// receiver stops the port, only the limit Config.Grace is prolonged, by the length of the stop, so
// that the reader of another stream cannot delay the end of the stream of r for long.
func (r *Receiver) allowForStops(now mono.Time) {
	stopped := r.e.stall.stopped(now)
	r.heard = min(r.heard.Add(stopped-r.stopped), now)
	r.stopped = stopped
	if r.blockedAt != 0 && r.e.data.waiting() {
		r.heard, r.endAt = now, now
	}
}

// leave ends a stop by a receiver that accepts no more datagrams, and removes this receiver from
// the queue of turns.
func (s *stall) leave(r *Receiver, now mono.Time) {
	s.end(r, now)
	r.asks = false
	if i := slices.Index(s.turns, r); i >= 0 {
		s.turns = slices.Delete(s.turns, i, i+1)
	}
}

// soleStream reports whether the engine has only one stream.
func (e *Engine) soleStream() bool { return len(e.sending)+len(e.receiving) <= 1 }
