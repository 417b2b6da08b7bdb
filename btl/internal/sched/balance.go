package sched

// Balance divides the packets of one endpoint between small and large fragments, while both wait to
// be sent. Neither kind of fragment may be ahead of the other by more than about a quantum of
// bytes.
type Balance struct {
	ahead int // bytes that the small flow may send before the large flow has a turn
}

// Init lets quantumBytes of small fragments be sent first.
func (b *Balance) Init(quantumBytes int) { b.ahead = quantumBytes }

// Bytes is the number of bytes of small fragments that may be sent before large fragments have a
// turn. If the result of Bytes is negative, small fragments are ahead by this number of bytes, and
// large fragments are next.
func (b *Balance) Bytes() int { return b.ahead }

// MaySmall reports whether a small fragment may be sent before large fragments.
func (b *Balance) MaySmall() bool { return b.ahead > 0 }

// LargeBytes is the number of bytes of large fragments that may be sent before small fragments have
// a turn.
func (b *Balance) LargeBytes(quantumBytes int) int { return quantumBytes - b.ahead }

// SentSmall records that sizeBytes of small fragments were sent.
func (b *Balance) SentSmall(sizeBytes int) { b.ahead -= sizeBytes }

// SentLarge records that sizeBytes of large fragments were sent.
func (b *Balance) SentLarge(sizeBytes int) { b.ahead += sizeBytes }

// Limit reduces, to at most quantumBytes, the number of bytes of small fragments that may be sent
// before large fragments have a turn.
func (b *Balance) Limit(quantumBytes int) { b.ahead = min(b.ahead, quantumBytes) }

// BeginLarge changes a negative result of Bytes to zero, because a new large fragment begins.
func (b *Balance) BeginLarge() { b.ahead = max(b.ahead, 0) }
