// Package mono has the type of instants in this project. An instant is a count of nanoseconds on
// the caller's monotonic time axis. Package mono never reads a clock. The packages of the transport
// take an instant as an argument, and return the instant of their next deadline. The same code
// therefore runs on a real clock and in a simulator's virtual time.
package mono

import "time"

// Time is an instant in nanoseconds. The caller chooses the zero instant of Time, and only
// differences and order of instants have a meaning.
type Time int64

// Never is later than every instant that a caller passes. As a deadline, Never means that there is
// no deadline.
const Never Time = 1<<63 - 1

// Add returns the instant d after t. If the sum overflows, Add returns Never.
func (t Time) Add(d time.Duration) Time {
	sum := t + Time(d)
	if d > 0 && sum < t {
		return Never
	}
	return sum
}

// Sub returns the time from u to t.
func (t Time) Sub(u Time) time.Duration { return time.Duration(t - u) }

// Min returns the earlier of t and u.
func (t Time) Min(u Time) Time {
	if u < t {
		return u
	}
	return t
}
