package inbound

import "gobtl/frag"

// A packet that several fragments share may begin with the end of one large fragment, and end with
// the beginning of the next large fragment. A part of a large fragment in a shared packet is called
// a piece. The receiver accepts a shared packet completely or not at all, so it reserves the memory
// for all pieces before the delivery. Without memory for a piece, the receiver drops the shared
// packet, and the sender retransmits it. If a tag has no handler, the sender retransmits the shared
// packet without the fragments of that tag.

// Pieces holds the pieces (parts of large fragments) in the shared packet that is being received.
type Pieces struct {
	list  [2]piece
	count int
}

type piece struct {
	frag.Header // as of a Chunk
	payload     []byte
	place       frag.Reservation
	// ignored means that the sender has ended the fragment with an error or the application refuses
	// the fragment.
	ignored bool
}

// Clear removes the pieces of the previous packet.
func (p *Pieces) Clear() { p.count = 0 }

// Any reports whether the shared packet has pieces.
func (p *Pieces) Any() bool { return p.count > 0 }

// Push appends the piece at the beginning of rest, the unread part of a shared packet, and returns
// the id of the piece's fragment. A valid packet has at most two pieces.
func (p *Pieces) Push(rest []byte) (fragID uint32) {
	at := &p.list[p.count]
	p.count++
	tag, data, _ := frag.NextRecord(rest)
	at.payload = frag.DecodePiece(tag, data, &at.Header)
	at.place, at.ignored = frag.Reservation{}, false
	return at.FragID
}

// has reports whether the shared packet contains a piece of the fragment fragID.
func (p *Pieces) has(fragID uint32) bool {
	if p == nil {
		return false
	}
	for i := range p.list[:p.count] {
		if p.list[i].FragID == fragID {
			return true
		}
	}
	return false
}

// Reserve reserves memory for each piece, except for those of fragments for which ignores returns
// true. The argument inOrder is true if all earlier packets have arrived. If Reserve returns an
// error, no memory is reserved and the packet must not be accepted.
func (p *Pieces) Reserve(asm *frag.Assembler, inOrder bool, ignores func(*frag.Header) bool) error {
	var first *frag.Reservation
	for i := range p.list[:p.count] {
		at := &p.list[i]
		if at.ignored = ignores(&at.Header); at.ignored {
			continue
		}
		var err error
		at.place, err = asm.Reserve(&at.Header, len(at.payload), inOrder, first)
		if err != nil {
			p.takeBack(asm)
			return err
		}
		first = &at.place
	}
	return nil
}

// takeBack drops the incomplete fragments that were made for the pieces of a refused shared packet.
func (p *Pieces) takeBack(asm *frag.Assembler) {
	for i := range p.list[:p.count] {
		if at := &p.list[i]; at.place.Begun {
			asm.Forget(at.FragID)
		}
	}
}

// Add adds a piece for which memory is reserved to its fragment. The argument index is the index of
// the piece in the packet. The results of Add are the piece's header, as of a chunk, and the
// fragment if it is complete. The result ok is false if the piece is ignored, or if the fragment
// has ended since Reserve.
func (p *Pieces) Add(asm *frag.Assembler, index int) (h *frag.Header, msg *frag.Message, ok bool) {
	at := &p.list[index]
	if at.ignored {
		return &at.Header, nil, false
	}
	msg, err := asm.AddReserved(&at.Header, &at.place, at.payload)
	return &at.Header, msg, err == nil
}
