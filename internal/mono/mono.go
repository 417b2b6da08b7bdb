// Package mono has the type of instants on a monotonic clock. An instant is a number of
// nanoseconds on the caller's clock. Package mono never reads a clock. The packages of the
// transport take the current instant as an argument, and return the instant of their next
// deadline.
package mono

import "time"

// Time is an instant in nanoseconds. The caller chooses the zero instant, and only the differences
// and the order of instants have a meaning.
type Time int64

// Never is later than every instant that a caller passes. As a deadline, Never means that there
// is no deadline.
const Never Time = 1<<63 - 1

// Add returns the instant that is d after t. If the sum overflows, Add returns Never.
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
