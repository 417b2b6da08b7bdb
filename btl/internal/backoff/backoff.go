// Package backoff makes endpoints pause between attempts to send large fragments for which the
// receiving peers had no memory.
//
//	refused   Begin --> waits --> End, once the pause is over --> the next attempt
//	arrived   Succeeded, so that the next pause is short again
//
// Each pause of an endpoint is twice as long as the previous pause, from Least to Most. The type
// Pauses holds the endpoints that pause, and the time at which the first of their pauses ends. The
// types of package backoff are not safe for concurrent use.
package backoff

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Least and Most are the minimum and the maximum length of a pause.
const (
	Least = 100 * time.Microsecond
	Most  = 100 * time.Millisecond
)

// Pause is the state of one endpoint's pauses. An endpoint with a zero Pause does not pause.
type Pause struct {
	length time.Duration // of the latest pause, or 0 after a success
	until  mono.Time     // end of the present pause, or 0
}

// Waits reports whether the endpoint's present pause has not been ended by Pauses.End yet.
func (p *Pause) Waits() bool { return p.until != 0 }

// Succeeded makes the next pause as short as the first one (Least).
func (p *Pause) Succeeded() { p.length = 0 }

// Pauses holds the endpoints of a module that pause, where E is the type of an endpoint. In a zero
// Pauses, no endpoint pauses.
type Pauses[E any] struct {
	waiting []waiting[E]
	first   mono.Time // when the first pause ends, or 0
}

type waiting[E any] struct {
	ep    E
	pause *Pause
}

// Begin starts a pause of endpoint ep, unless ep is already in a pause. All calls of Begin for the
// same endpoint must pass the same Pause.
func (s *Pauses[E]) Begin(ep E, pause *Pause, now mono.Time) {
	if pause.until != 0 {
		return
	}
	pause.length = min(max(2*pause.length, Least), Most)
	pause.until = now.Add(pause.length)
	s.waiting = append(s.waiting, waiting[E]{ep, pause})
	s.end(pause)
}

// end sets s.first to the end of pause p, if p ends before every pause that was recorded before.
func (s *Pauses[E]) end(p *Pause) {
	if s.first == 0 || p.until < s.first {
		s.first = p.until
	}
}

// Deadline returns the time at which the first pause ends, or Never if no endpoint pauses.
func (s *Pauses[E]) Deadline() mono.Time {
	if s.first == 0 {
		return mono.Never
	}
	return s.first
}

// Due reports whether at least one pause has reached its end time, so that End must be called.
func (s *Pauses[E]) Due(now mono.Time) bool { return s.first != 0 && now >= s.first }

// End removes each pause that has reached its end time, and calls the function "resume" with the
// endpoint of this pause. The function "resume" of End must not call methods of the Pauses.
func (s *Pauses[E]) End(now mono.Time, resume func(E)) {
	s.first = 0
	n := 0
	for _, w := range s.waiting {
		if now < w.pause.until {
			s.end(w.pause)
			s.waiting[n] = w
			n++
			continue
		}
		w.pause.until = 0
		resume(w.ep)
	}
	clear(s.waiting[n:])
	s.waiting = s.waiting[:n]
}

// Check returns an error if s.first is not the earliest end of all pauses, and nil otherwise. Check
// also returns, as the result "count", how many pausing endpoints make the function "counts" return
// true.
func (s *Pauses[E]) Check(counts func(E) bool) (count int, err error) {
	for i, w := range s.waiting {
		if until := w.pause.until; until == 0 || until < s.first || s.first == 0 {
			return 0, fmt.Errorf("pause %d ends at %d, the first at %d", i, until, s.first)
		}
		if counts(w.ep) {
			count++
		}
	}
	return count, nil
}
