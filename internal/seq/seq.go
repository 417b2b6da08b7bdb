// Package seq does the arithmetic of 32-bit packet sequence numbers, which wrap (RFC 1982). Every
// comparison of two sequence numbers in the project uses this package. In usnic some comparisons
// use plain operators, and are wrong at the wrap.
package seq

// Num is a packet's sequence number. Two numbers can be ordered while they are less than 2^31
// apart. All numbers in use are closer, because a window has at most 2^16 packets.
type Num uint32

// Add returns the number n steps after s.
func (s Num) Add(n uint32) Num { return s + Num(n) }

// Sub returns how many steps s lies after t. The result of Sub is negative if s lies before t.
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
