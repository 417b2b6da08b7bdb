package layers

import (
	"encoding/binary"
	"testing"

	"gobtl/btl"
	"gobtl/cmd/btlbench/plan"
)

// noteOf is a control message.
func noteOf(round, a, b uint64) []byte {
	var note [noteBytes]byte
	binary.LittleEndian.PutUint64(note[:], round)
	binary.LittleEndian.PutUint64(note[8:], a)
	binary.LittleEndian.PutUint64(note[16:], b)
	return note[:]
}

// prepared prepares a round of the transport on a side, and then runs fn on the side's thread.
func prepared(t *testing.T, s *Side, r *Round, fn func(p *btlPort, got func(btl.Tag, []byte))) {
	t.Helper()
	err := s.engine.do(func() error {
		if _, err := s.btl.Prepare(r); err != nil {
			return err
		}
		handlers := s.btl.handlers(r)
		fn(s.btl, func(tag btl.Tag, data []byte) { handlers[tag](s.btl.ep, tag, data) })
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
}

// A peer says that it has seen puts of slots that a round does not have, that are not in use, or
// that it has seen before. The list of free slots has each slot once.
func TestSlotsOfLiar(t *testing.T) {
	client, server := localPair(t)
	liar := func(p *btlPort, got func(btl.Tag, []byte)) {
		free := len(p.messages.free)
		if p.r.Test == plan.TestPutBW && !p.r.Server {
			p.unseen = make([]bool, p.r.Window)
			p.unseen[0] = true // as if a put of this slot were complete
			p.messages.free = p.messages.free[:free-1]
		}
		for _, slot := range []uint64{0, 0, 7, 8, 1 << 40} {
			got(tagPutSeen, noteOf(p.r.Number, slot, 0))
		}
		if n := len(p.messages.free); n != free {
			t.Errorf("%v, server %v: %d free slots of %d", &p.r.Spec, p.r.Server, n, free)
		}
	}
	for _, test := range []string{plan.TestLat, plan.TestPutLat, plan.TestBW, plan.TestPutBW} {
		for _, verify := range []bool{false, true} {
			spec := plan.Spec{
				Number: 1, Test: test, Layer: plan.LayerBTL, SizeBytes: 64, Window: 8, Verify: verify,
			}
			prepared(t, server, &Round{Spec: spec, Server: true}, liar)
			if verify {
				prepared(t, client, &Round{Spec: spec}, liar)
			}
		}
	}
}
