package inbound

import (
	"errors"

	"gobtl/frag"
)

// A packet that several fragments share (a Pack) can begin with the end of one large fragment, and
// end with the beginning of the next large fragment. A part of a large fragment in a Pack is called
// a piece. The receiver accepts all fragments of a Pack with pieces, or refuses the whole Pack. The
// receiver reserves memory for all pieces of a Pack before it delivers any fragment of the Pack. If
// the receiver has no memory for a part of a large fragment, it drops the whole Pack, and the
// sender retransmits the Pack. If the receiver has no handler for a tag in a Pack, the sender
// retransmits the Pack without the fragments of this tag.

// Pieces contains the pieces (parts of large fragments) of the Pack that is being received.
type Pieces struct {
	list    [2]piece
	count   int
	blocked uint32 // see Blocked
}

type piece struct {
	frag.Header // as of a Chunk
	payload     []byte
	place       frag.Reservation
	// The field "ignored" says whether the piece is ignored, because the sender has ended its fragment
	// with an error, or the receiving application refuses its fragment.
	ignored bool
}

// Clear removes the pieces (parts of large fragments) of the previous Pack.
func (p *Pieces) Clear() { p.count = 0 }

// Any reports whether the Pack contains pieces (parts of large fragments).
func (p *Pieces) Any() bool { return p.count > 0 }

// Push appends the next piece (part of a large fragment) of a Pack, and returns the id of the
// piece's fragment. The argument "rest" of Push is the unread part of the packet, which begins with
// the piece. A valid packet has at most two pieces (parts of large fragments).
func (p *Pieces) Push(rest []byte) (fragID uint32) {
	at := &p.list[p.count]
	p.count++
	tag, data, _ := frag.NextRecord(rest)
	at.payload = frag.DecodePiece(tag, data, &at.Header)
	at.place, at.ignored = frag.Reservation{}, false
	return at.FragID
}

// The method "has" reports whether the Pack contains a piece of the large fragment with the id
// fragID.
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

// Reserve reserves memory for each piece (part of a large fragment) of the packet, unless the
// function "ignores" returns true for the piece's header. The argument inOrder of Reserve says
// whether all packets before the packet of the pieces have arrived. If Reserve returns an error, it
// has reserved no memory, and the caller must not accept the packet.
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
			p.blocked = at.FragID
			if errors.Is(err, frag.ErrSlot) {
				asm.Supersede(at.FragID) // for the next copy of the packet
			}
			p.takeBack(asm)
			return err
		}
		first = &at.place
	}
	return nil
}

// Blocked returns the id of the fragment for a piece of which the latest failed call of Reserve has
// found no memory or no slot.
func (p *Pieces) Blocked() (fragID uint32) { return p.blocked }

// takeBack undoes Reserve, by dropping the incomplete fragments that Reserve has begun for the
// pieces of a Pack.
func (p *Pieces) takeBack(asm *frag.Assembler) {
	for i := range p.list[:p.count] {
		if at := &p.list[i]; at.place.Begun {
			asm.Forget(at.FragID)
		}
	}
}

// Add copies the piece (part of a large fragment) with the given index to the memory that Reserve
// has reserved for it. Add returns the piece's header, in the form of a chunk header, and the
// fragment if it is complete. The result "ok" of Add is false, and the piece is not copied, if the
// piece is ignored, or if its fragment has ended since the call of Reserve.
func (p *Pieces) Add(asm *frag.Assembler, index int) (h *frag.Header, msg *frag.Message, ok bool) {
	at := &p.list[index]
	if at.ignored {
		return &at.Header, nil, false
	}
	msg, err := asm.AddReserved(&at.Header, &at.place, at.payload)
	return &at.Header, msg, err == nil
}
