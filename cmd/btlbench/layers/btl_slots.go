package layers

import (
	"errors"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// messages is the memory of the messages in flight.
type messages struct {
	mem  []byte
	size int
	// apart says that each slot has its own memory, because the contents of messages matter.
	apart    bool
	free     []uint32 // slots that may be used
	inFlight int
	acked    uint64 // of those that were in flight
	doneFn   func(*btl.Fragment, error)
	// sendErr is the error with which a send has ended.
	sendErr error
}

// resetFor makes one slot for each message in flight.
func (s *messages) resetFor(r *Round) {
	slots, apart := slotsFor(r)
	s.reset(slots, r.SizeBytes, apart)
}

// slotsFor returns the number of slots of a round, and whether each slot has its own memory.
func slotsFor(r *Round) (slots int, apart bool) {
	slots = r.Window
	if plan.IsLatency(r.Test) {
		// The latest, those whose acknowledgement is still on its way, and one to spare.
		slots = plan.WindowFor(4, r.SizeBytes)
	}
	return slots, r.Verify || r.Test == plan.TestPutLat || r.Test == plan.TestGetBW
}

// slotBytes is the size of the memory of slots.
func slotBytes(slots, size int, apart bool) int {
	if apart || slots == 0 {
		return slots * size
	}
	return size
}

// reset makes slots for messages of a size. If the argument apart is false, all slots share their
// memory.
func (s *messages) reset(slots, size int, apart bool) {
	s.size, s.apart, s.inFlight, s.acked, s.sendErr = size, apart, 0, 0, nil
	need := slotBytes(slots, size, apart)
	if cap(s.mem) < need {
		s.mem = make([]byte, need)
	}
	s.mem = s.mem[:need]
	s.free = s.free[:0]
	for i := range slots {
		s.free = append(s.free, uint32(slots-1-i))
	}
}

// slot returns the memory of a slot.
func (s *messages) slot(i uint32) []byte {
	if s.apart {
		return s.mem[int(i)*s.size:][:s.size]
	}
	return s.mem
}

// take takes a free slot, if there is one.
func (s *messages) take() (uint32, bool) {
	n := len(s.free) - 1
	if n < 0 {
		return 0, false
	}
	i := s.free[n]
	s.free = s.free[:n]
	return i, true
}

// onDone is called when a queued message was acknowledged, or has failed.
func (s *messages) onDone(f *btl.Fragment, err error) {
	if s.inFlight == 0 {
		s.sendErr = errStray
		return
	}
	s.inFlight--
	s.acked++
	s.free = append(s.free, uint32(f.Context))
	if err != nil && s.sendErr == nil {
		s.sendErr = err
	}
}

// immediateBytesMax is the size of the largest message that is copied (SendImmediate), and the
// memory of a larger one is lent to the transport.
const immediateBytesMax = 16 << 10

// send sends the message in a slot, and frees the slot when the transport no longer uses it. If the
// result of send is false, nothing was sent because of back-pressure, and the slot is free.
func (s *messages) send(ep *btl.Endpoint, tag btl.Tag, slot uint32) (bool, error) {
	data := s.slot(slot)
	if len(data) <= min(ep.MaxTiny(), immediateBytesMax) {
		err := ep.SendImmediate(ep.Now(), tag, data)
		if err == nil {
			s.free = append(s.free, slot)
			return true, nil
		}
		if !errors.Is(err, btl.ErrAgain) {
			return false, err
		}
	}
	f, err := ep.Prepare(tag, data)
	if err != nil {
		s.free = append(s.free, slot)
		return false, again(err)
	}
	f.Context, f.OnDone = uint64(slot), s.doneFn
	return s.give(ep, f, slot)
}

// give passes a prepared fragment to the transport.
func (s *messages) give(ep *btl.Endpoint, f *btl.Fragment, slot uint32) (bool, error) {
	status, err := ep.Send(ep.Now(), f)
	switch {
	case err != nil:
		_ = ep.Free(f) // It is ours after a refused Send.
		s.free = append(s.free, slot)
		return false, again(err)
	case status == btl.Done:
		s.free = append(s.free, slot)
	default:
		s.inFlight++
	}
	return true, nil
}

// The function again returns nil for an error that means back-pressure.
func again(err error) error {
	if errors.Is(err, btl.ErrAgain) {
		return nil
	}
	return err
}
