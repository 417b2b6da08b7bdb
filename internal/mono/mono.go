// Package mono defines the type Time, an instant (a point in time) on a monotonic clock. An instant
// is a number of nanoseconds on a clock that the caller chooses. Package mono never reads a clock.
// The functions of the transport's packages get the current instant as an argument, and return the
// instant at which the caller must call them again.
package mono

import "time"

// Time is an instant in nanoseconds. The caller chooses which instant has the value zero. An
// instant has a meaning only in comparison with other instants of the same clock.
type Time int64

// Never is the latest possible instant. As a deadline, Never means that there is no deadline.
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
