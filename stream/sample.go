package stream

// sampling says when the next sample of the counters is due: each time that so many more messages
// were sent, at most once a pass.
type sampling struct {
	every uint64 // 0: never
	next  uint64
}

// due says whether a sample is due now that so many messages have been counted.
func (s *sampling) due(messages uint64) bool {
	if s.every == 0 || messages < max(s.next, s.every) {
		return false
	}
	s.next = (messages/s.every + 1) * s.every
	return true
}
