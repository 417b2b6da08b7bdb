package stream

import "fmt"

// The methods below take populated regions of the ring for a sender, and release them.

// takeRegions begins to send the populated regions, in the order of their ordinals. If a word of a
// region's descriptor is out of its range, takeRegions returns an error.
func (s *Sender) takeRegions() error {
	g := &s.ring.geo
	for s.seqHi-s.seqLo < uint64(g.Regions) && s.next < s.total {
		slot := int(s.seqHi % uint64(g.Regions))
		count, skip := uint64(g.RegionMessages), s.ring.get(slot, wordSkip)
		if !s.cfg.Unmonitored {
			if s.ring.get(slot, wordState) != regionPopulated {
				break
			}
			count = max(s.ring.get(slot, wordMessages), 1)
		}
		if err := s.checkWords(slot, count, skip); err != nil {
			return err
		}
		if skip > 0 {
			skip = min(skip, s.total-s.next)
			s.ring.set(slot, wordSkip, 0)
			s.next += skip
			s.drops += skip
			if s.next == s.total {
				break
			}
		}
		count = min(count, s.total-s.next)
		s.ring.open(slot, s.next, int(count))
		s.next += count
		s.seqHi++
	}
	return nil
}

// checkWords returns an error if the producer has written values out of range to the words of a
// region's descriptor. The producer may be another process that maps the ring.
func (s *Sender) checkWords(slot int, messages, skip uint64) error {
	switch most := uint64(s.ring.geo.RegionMessages); {
	case messages > most:
		return fmt.Errorf("%w: the producer has written %d messages for region %d of the ring, want at "+
			"most %d", ErrFile, messages, slot, most)
	case skip > ordinalsMax || s.next > ordinalsMax-skip:
		return fmt.Errorf("%w: the producer has written %d dropped messages for region %d of the ring",
			ErrFile, skip, slot)
	}
	return nil
}

// release releases the regions whose messages all have ordinals below the argument "done".
func (s *Sender) release(done uint64) {
	for s.seqLo < s.seqHi {
		slot := int(s.seqLo % uint64(s.ring.geo.Regions))
		c := &s.ring.counts[slot]
		if c.end() > done {
			return
		}
		s.ring.mark(slot, 0, int(c.messages))
		s.seqLo++
		s.stats.Regions++
		s.ring.set(slot, wordState, regionFree)
		select {
		case s.freed <- struct{}{}:
		default: // the channel already has a signal
		}
	}
}
