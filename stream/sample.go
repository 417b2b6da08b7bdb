package stream

// sampling determines when the next call of Config.Sample is due. A call of Config.Sample is due
// when the number of sent messages reaches a multiple of Config.Every, but at most once per
// Progress of the engine.
type sampling struct {
	every uint64 // 0: never
	next  uint64
}

func (s *sampling) due(messages uint64) bool {
	if s.every == 0 || messages < max(s.next, s.every) {
		return false
	}
	s.next = (messages/s.every + 1) * s.every
	return true
}
