package sched

// Balance divides the packets of one endpoint between two flows, of small and of large fragments,
// while both have something to send. Neither flow may send more than about a quantum of bytes more
// than the other flow.
type Balance struct {
	ahead int // bytes that the small flow may send before the large flow has a turn
}

// Init lets the small flow send quantumBytes first.
func (b *Balance) Init(quantumBytes int) { b.ahead = quantumBytes }

// Bytes is the number of bytes that the small flow may send before the large flow has a turn. If
// the result is negative, the small flow has sent this number of bytes too many, and the large flow
// is next.
func (b *Balance) Bytes() int { return b.ahead }

// MaySmall reports whether the small flow may send before the large flow.
func (b *Balance) MaySmall() bool { return b.ahead > 0 }

// LargeBytes is the number of bytes that the large flow may send before the small flow has a turn.
func (b *Balance) LargeBytes(quantumBytes int) int { return quantumBytes - b.ahead }

// SentSmall records that the small flow has sent sizeBytes.
func (b *Balance) SentSmall(sizeBytes int) { b.ahead -= sizeBytes }

// SentLarge records that the large flow has sent sizeBytes.
func (b *Balance) SentLarge(sizeBytes int) { b.ahead += sizeBytes }

// Limit limits the bytes that the small flow may send before the large flow to quantumBytes.
func (b *Balance) Limit(quantumBytes int) { b.ahead = min(b.ahead, quantumBytes) }

// BeginLarge sets a negative result of Bytes to zero, because a new large fragment begins.
func (b *Balance) BeginLarge() { b.ahead = max(b.ahead, 0) }
