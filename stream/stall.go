package stream

import (
	"time"

	"gobtl/internal/mono"
)

const (
	// stallMost is the longest uninterrupted time for which a receiver may stop its port. In the long
	// run, a receiver may stop its port for at most 1/stallParts of the time.
	stallMost  = 50 * time.Millisecond
	stallParts = 4
	// stallLeast is the shortest time for which a receiver stops its port. If the time for which it
	// may stop the port is shorter than stallLeast, a receiver does not stop the port.
	stallLeast = time.Millisecond
)

// stall limits the time for which a receiver with the policy Block stops its port. While a receiver
// stops its port, the datagrams of all streams of the port wait until this receiver has a free
// region.
type stall struct {
	left  time.Duration // time for which the port may be stopped, as of at
	at    mono.Time     // begin of the stop, or end of the latest stop
	stops bool          // the receiver stops the port
}

// The method "may" reports whether the receiver is allowed to stop the port. The caller calls "may"
// for each datagram for which no region is free.
func (s *stall) may(now mono.Time) bool {
	since := now.Sub(s.at)
	if s.stops {
		if since < s.left {
			return true
		}
		s.end(now)
		return false
	}
	if s.left = min(s.left+since/stallParts, stallMost); s.at == 0 {
		s.left = stallMost
	}
	s.at, s.stops = now, s.left >= stallLeast
	return s.stops
}

// end records that the receiver no longer stops the port.
func (s *stall) end(now mono.Time) {
	if s.stops {
		s.left = max(s.left-now.Sub(s.at), 0)
		s.at, s.stops = now, false
	}
}

// soleStream reports whether the engine has only one stream.
func (e *Engine) soleStream() bool { return len(e.sending)+len(e.receiving) <= 1 }
