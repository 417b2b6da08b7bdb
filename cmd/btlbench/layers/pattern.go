package layers

import (
	"encoding/binary"
	"math/bits"
)

// This file defines the contents of messages with --verify. Message number n begins with its number
// in eight bytes, little-endian, and goes on with words that depend on n and on their offset,
// truncated to the size of the message. A message can therefore be identified in any order of
// arrival, and a byte of another message or from another offset is detected.

const stampBytes = 8

// patternWord is the word at offset 8*k of message n, computed with a shortened finaliser of
// splitmix64 (Steele et al., OOPSLA 2014).
func patternWord(n uint64, k int) uint64 {
	x := n*0x9e3779b97f4a7c15 + uint64(k)*0xbf58476d1ce4e5b9
	return (x ^ x>>31) * 0x94d049bb133111eb
}

// fillPattern writes the content of message n.
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

// stampOf returns the number that a message contains. A message shorter than the number contains
// only its lower bytes, and stampOf returns the number nearest to the expected one with these
// bytes, as QUIC decodes packet numbers (RFC 9000, A.3).
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

// Add adds the counts of another Tally.
func (t *Tally) Add(o *Tally) {
	t.Messages += o.Messages
	t.Bytes += o.Bytes
	t.VerifiedBytes += o.VerifiedBytes
	t.CorruptBytes += o.CorruptBytes
	t.Duplicates += o.Duplicates
	t.Missing += o.Missing
}

// check compares a message with the content that its number requires, and marks that number as
// delivered. The argument size of check is the size of every message of the round.
func (t *Tally) check(b []byte, size int) {
	n := stampOf(b, t.seen.top)
	wrong := corruptBytes(b, n)
	if len(b) != size {
		wrong = int64(max(size, len(b)))
	}
	t.VerifiedBytes += int64(len(b)) - min(wrong, int64(len(b)))
	t.CorruptBytes += wrong
	// If most bytes of a message are wrong, the number in the message was altered.
	if len(b) > 2*stampBytes && wrong > int64(len(b)/2) {
		return
	}
	if !t.seen.mark(n) {
		t.Duplicates++
	}
}

// finish counts the missing messages among the sent ones, 0 to sent-1.
func (t *Tally) finish(sent uint64) { t.Missing += t.seen.missing(sent) }

// seenBits is the largest distance of a message number from the oldest missing number, far beyond
// any window. seenJump is the largest distance of a valid message number from the highest number so
// far.
const (
	seenBits = 1 << 20
	seenJump = seenBits / 4
)

// seenSet is the set of delivered message numbers, with a ring of bits for the numbers from next
// on.
type seenSet struct {
	next  uint64
	top   uint64 // one more than the highest number marked
	count uint64 // distinct numbers marked
	bits  []uint64
}

func (s *seenSet) bit(n uint64) (word *uint64, mask uint64) {
	return &s.bits[n%seenBits/64], uint64(1) << (n % 64)
}

// mark adds n to the set, and reports whether it was new. If a number is too far ahead of the
// highest number so far, mark treats the number as invalid and returns false.
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

// missing is the number of values from 0 to sent-1 that were never marked.
func (s *seenSet) missing(sent uint64) int64 {
	return int64(sent) - int64(min(s.count, sent))
}
