package sched

// Balance divides the packets of one endpoint between small and large fragments, while fragments of
// both kinds wait to be sent. The numbers of bytes sent from small and from large fragments differ
// by at most about a quantum.
type Balance struct {
	ahead int // bytes of small fragments that may be sent before the turn of large ones
}

// Init allows quantumBytes of small fragments to be sent before the first large fragment.
func (b *Balance) Init(quantumBytes int) { b.ahead = quantumBytes }

// Bytes returns the number of bytes of small fragments that may be sent before it is the turn of
// large fragments. If the result of Bytes is negative, it is the turn of large fragments, and the
// result is minus the number of bytes by which small fragments have exceeded their turn.
func (b *Balance) Bytes() int { return b.ahead }

// MaySmall reports whether a small fragment may be sent before large fragments.
func (b *Balance) MaySmall() bool { return b.ahead > 0 }

// LargeBytes returns the number of bytes of large fragments that may be sent before it is the turn
// of small fragments.
func (b *Balance) LargeBytes(quantumBytes int) int { return quantumBytes - b.ahead }

// SentSmall records that sizeBytes of small fragments were sent.
func (b *Balance) SentSmall(sizeBytes int) { b.ahead -= sizeBytes }

// SentLarge records that sizeBytes of large fragments were sent.
func (b *Balance) SentLarge(sizeBytes int) { b.ahead += sizeBytes }

// Limit makes sure that at most quantumBytes of small fragments may be sent before it is the turn
// of large fragments.
func (b *Balance) Limit(quantumBytes int) { b.ahead = min(b.ahead, quantumBytes) }

// BeginLarge is called when a new large fragment begins. BeginLarge changes a negative result of
// Bytes to zero.
func (b *Balance) BeginLarge() { b.ahead = max(b.ahead, 0) }
