package layers

import (
	"encoding/binary"
	"math/bits"
)

// Message contents under --verify. Message number n of size bytes is the number itself in the first
// eight bytes, little-endian, then words that depend on n and on their offset, cut off at size. So
// a message identifies itself wherever it arrives, in whatever order, and a byte of another
// message, or from another place of the same, is a wrong byte.

const stampBytes = 8

// patternWord is the word at offset 8*k of message n: a finaliser in the manner of splitmix64
// (Steele et al., OOPSLA 2014), shortened because it needs to differ, not to be random.
func patternWord(n uint64, k int) uint64 {
	x := n*0x9e3779b97f4a7c15 + uint64(k)*0xbf58476d1ce4e5b9
	return (x ^ x>>31) * 0x94d049bb133111eb
}

// fillPattern writes message n.
func fillPattern(b []byte, n uint64) {
	word := n
	for k := 0; len(b) >= 8; k++ {
		binary.LittleEndian.PutUint64(b, word)
		b = b[8:]
		word = patternWord(n, k+1)
	}
	for i := range b {
		b[i] = byte(word >> (8 * i))
	}
}

// patternLast is the last byte of message n of size bytes, at least 1.
func patternLast(n uint64, size int) byte {
	k, shift := (size-1)/8, 8*((size-1)%8)
	if k == 0 {
		return byte(n >> shift)
	}
	return byte(patternWord(n, k) >> shift)
}

// corruptBytes counts the bytes that differ from message n.
func corruptBytes(b []byte, n uint64) (count int64) {
	word := n
	for k := 0; len(b) >= 8; k++ {
		if got := binary.LittleEndian.Uint64(b); got != word {
			count += differingBytes(got ^ word)
		}
		b = b[8:]
		word = patternWord(n, k+1)
	}
	for i := range b {
		if b[i] != byte(word>>(8*i)) {
			count++
		}
	}
	return count
}

// differingBytes counts the bytes of x that are not zero.
func differingBytes(x uint64) int64 {
	x |= x >> 4
	x |= x >> 2
	x |= x >> 1
	return int64(bits.OnesCount64(x & 0x0101010101010101))
}

// stampOf returns the number that a message claims to have. A message shorter than the stamp holds
// its low bytes only: then it is the number nearest to the expected one that ends in them, as QUIC
// decodes its packet numbers (RFC 9000, A.3).
func stampOf(b []byte, expected uint64) uint64 {
	if len(b) >= stampBytes {
		return binary.LittleEndian.Uint64(b)
	}
	if len(b) == 0 {
		return expected
	}
	var low uint64
	for i, v := range b {
		low |= uint64(v) << (8 * i)
	}
	period := uint64(1) << (8 * len(b))
	n := expected&^(period-1) | low
	switch {
	case n+period/2 <= expected:
		return n + period
	case n > expected+period/2 && n >= period:
		return n - period
	}
	return n
}

// Tally has the results of the receiver's checks of messages.
type Tally struct {
	Messages int64 `json:"messages"` // delivered, whatever they contained
	Bytes    int64 `json:"bytes"`

	VerifiedBytes int64 `json:"verified_bytes"` // compared and right
	CorruptBytes  int64 `json:"corrupt_bytes"`  // compared and wrong
	Duplicates    int64 `json:"duplicates"`     // Messages delivered again
	Missing       int64 `json:"missing"`        // Messages sent and never delivered

	seen seenSet
}

// Add adds another one.
func (t *Tally) Add(o *Tally) {
	t.Messages += o.Messages
	t.Bytes += o.Bytes
	t.VerifiedBytes += o.VerifiedBytes
	t.CorruptBytes += o.CorruptBytes
	t.Duplicates += o.Duplicates
	t.Missing += o.Missing
}

// check compares a delivered message with what its stamp claims it to be, and marks that number as
// delivered. size is the size that every message of the round has.
func (t *Tally) check(b []byte, size int) {
	n := stampOf(b, t.seen.top)
	wrong := corruptBytes(b, n)
	if len(b) != size {
		wrong = int64(max(size, len(b)))
	}
	t.VerifiedBytes += int64(len(b)) - min(wrong, int64(len(b)))
	t.CorruptBytes += wrong
	// A message that is mostly wrong does not say which one it is: its stamp was altered.
	if len(b) > 2*stampBytes && wrong > int64(len(b)/2) {
		return
	}
	if !t.seen.mark(n) {
		t.Duplicates++
	}
}

// finish counts the missing messages among the sent ones, 0 to sent-1.
func (t *Tally) finish(sent uint64) { t.Missing += t.seen.missing(sent) }

// seenBits is how far a message may be ahead of the oldest one missing and still be told apart:
// far beyond any window. seenJump is how far ahead of all others a number may be and still be one
// of ours.
const (
	seenBits = 1 << 20
	seenJump = seenBits / 4
)

// seenSet remembers which message numbers were delivered: those below next are settled, delivered
// or given up, and those from there on are in bits, a ring.
type seenSet struct {
	next  uint64
	top   uint64 // one more than the highest number marked
	count uint64 // distinct numbers marked
	bits  []uint64
}

func (s *seenSet) bit(n uint64) (word *uint64, mask uint64) {
	return &s.bits[n%seenBits/64], uint64(1) << (n % 64)
}

// mark adds n, and reports whether it was new. A number too far ahead to be one of ours counts as
// delivered before: it is no message that was sent.
func (s *seenSet) mark(n uint64) bool {
	if s.bits == nil {
		s.bits = make([]uint64, seenBits/64)
	}
	if n < s.next || n >= s.top+seenJump {
		return false
	}
	for n-s.next >= seenBits { // Only where messages were lost: they are given up.
		word, mask := s.bit(s.next)
		*word &^= mask
		s.next++
	}
	word, mask := s.bit(n)
	if *word&mask != 0 {
		return false
	}
	*word |= mask
	s.count++
	s.top = max(s.top, n+1)
	for {
		word, mask = s.bit(s.next)
		if *word&mask == 0 {
			return true
		}
		*word &^= mask
		s.next++
	}
}

// missing is how many of the numbers 0 to sent-1 were never marked.
func (s *seenSet) missing(sent uint64) int64 {
	return int64(sent) - int64(min(s.count, sent))
}
