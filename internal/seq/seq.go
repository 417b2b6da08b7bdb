// Package seq defines 32-bit packet sequence numbers, which wrap around, and their arithmetic (RFC
// 1982).
package seq

// Num is the sequence number of a packet. Two sequence numbers have a defined order only if the
// distance between them is less than 2^31.
type Num uint32

// Add returns the number n steps after s.
func (s Num) Add(n uint32) Num { return s + Num(n) }

// Sub returns the number of steps from t to s. The result of Sub is negative if s comes before t.
func (s Num) Sub(t Num) int32 { return int32(s - t) }

// Before reports whether s comes before t.
func (s Num) Before(t Num) bool { return int32(s-t) < 0 }

// Max returns the later of s and t.
func (s Num) Max(t Num) Num {
	if s.Before(t) {
		return t
	}
	return s
}
