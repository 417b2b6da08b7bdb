package frag

import "iter"

// Placed says whether the message was put together in memory that BeginIn was given.
func (m *Message) Placed() bool { return m.placed }

// PlacedIn returns all of the memory that BeginIn was given for the message, nil if it stands in
// the pool's.
func (m *Message) PlacedIn() []byte {
	if !m.placed {
		return nil
	}
	return m.mem
}

// CopiedBytes is how much of the message Add has copied; the rest has landed.
func (m *Message) CopiedBytes() int64 { return m.copiedBytes }

// Begins says whether a chunk with header h and a payload of so many bytes would begin a fragment,
// if there was memory for that.
func (a *Assembler) Begins(h *Header, payloadBytes int) bool {
	if a.find(h.FragID) != nil {
		return false
	}
	_, err := locate(h, payloadBytes)
	return err == nil && h.SizeBytes <= a.pool.cfg.FragBytesMax &&
		a.slotBits(h.FragID) <= tableSlotsMaxBits
}

// BeginIn begins the fragment of a chunk for which Begins is true in memory of the caller's, at
// least as long as the fragment, which counts in no budget: Add and AddLanded of its chunks put
// them there, and Landing leads there. The memory is the caller's again when the message is
// released, or its fragment is dropped or forgotten.
func (a *Assembler) BeginIn(h *Header, mem []byte) {
	m := a.pool.getPlaced()
	m.mem = mem[:h.SizeBytes:h.SizeBytes]
	m.expect(h)
	a.enter(m, h, a.slotBits(h.FragID))
}

// AllPlaced are the unfinished fragments that BeginIn has begun: their tags, and their memory.
func (a *Assembler) AllPlaced() iter.Seq2[uint8, []byte] {
	return func(yield func(uint8, []byte) bool) {
		for _, m := range a.slots {
			if m != nil && m.placed && !yield(m.Tag, m.mem) {
				return
			}
		}
	}
}

// Bounds of what is kept of fragments that were placed: descriptors, and the words of the bitmap of
// each.
const (
	placedKept      = 64
	placedWordsKept = 1 << 12
)

// getPlaced returns a message without memory.
func (p *Pool) getPlaced() *Message {
	m := p.placed
	if m == nil {
		return &Message{pool: p, placed: true}
	}
	p.placed, m.nextIdle = m.nextIdle, nil
	p.placedCount--
	return m
}

// putPlaced takes one back.
func (p *Pool) putPlaced(m *Message) {
	m.mem = nil
	if p.placedCount == placedKept || cap(m.have) > placedWordsKept {
		return
	}
	m.nextIdle, p.placed = p.placed, m
	p.placedCount++
}
