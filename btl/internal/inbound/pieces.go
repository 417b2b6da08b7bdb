package inbound

import (
	"errors"

	"gobtl/frag"
)

// A packet that several fragments share may begin with the end of one large fragment, and end with
// the beginning of the next large fragment. A part of a large fragment in a shared packet is called
// a piece. The receiver accepts a shared packet completely or not at all, so it reserves the memory
// for all parts of large fragments before the delivery. If the receiver has no memory for a part of
// a shared packet, it drops the packet, and the sender retransmits the packet. If a tag has no
// handler at the receiver, the sender retransmits the shared packet without the fragments of that
// tag.

// Pieces holds the pieces (parts of large fragments) in the shared packet that is being received.
type Pieces struct {
	list    [2]piece
	count   int
	blocked uint32 // see Blocked
}

type piece struct {
	frag.Header // as of a Chunk
	payload     []byte
	place       frag.Reservation
	// The field "ignored" of a piece is true if the sender has ended the fragment with an error, or
	// if the receiving application refuses the fragment.
	ignored bool
}

// Clear removes the pieces of the previous packet.
func (p *Pieces) Clear() { p.count = 0 }

// Any reports whether the shared packet has pieces.
func (p *Pieces) Any() bool { return p.count > 0 }

// Push appends the next piece of a shared packet, and returns the id of the piece's fragment. The
// argument "rest" of Push is the unread part of the packet. A valid packet has at most two pieces.
func (p *Pieces) Push(rest []byte) (fragID uint32) {
	at := &p.list[p.count]
	p.count++
	tag, data, _ := frag.NextRecord(rest)
	at.payload = frag.DecodePiece(tag, data, &at.Header)
	at.place, at.ignored = frag.Reservation{}, false
	return at.FragID
}

// The method "has" reports whether the shared packet contains a piece of the fragment fragID.
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

// Reserve reserves memory for all pieces of the packet, except for a piece whose header makes the
// function "ignores" return true. The argument inOrder of Reserve is true if all earlier packets
// have arrived. If Reserve returns an error, no memory is reserved and the packet must not be
// accepted.
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

// Blocked returns the fragment of the piece for which the latest error of Reserve was.
func (p *Pieces) Blocked() (fragID uint32) { return p.blocked }

// takeBack drops the incomplete fragments that Reserve has begun for the pieces of a shared packet.
func (p *Pieces) takeBack(asm *frag.Assembler) {
	for i := range p.list[:p.count] {
		if at := &p.list[i]; at.place.Begun {
			asm.Forget(at.FragID)
		}
	}
}

// Add copies the piece with the given index to the memory that Reserve has reserved for the piece.
// Add returns the piece's header, in the form of a chunk header, and the fragment if it is
// complete. The result "ok" of Add is false if the piece is ignored, or if its fragment has ended
// after the call of Reserve.
func (p *Pieces) Add(asm *frag.Assembler, index int) (h *frag.Header, msg *frag.Message, ok bool) {
	at := &p.list[index]
	if at.ignored {
		return &at.Header, nil, false
	}
	msg, err := asm.AddReserved(&at.Header, &at.place, at.payload)
	return &at.Header, msg, err == nil
}
