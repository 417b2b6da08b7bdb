package remote

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/slots"
)

// AsksMax bounds the operations to a peer that are not answered, and the answers to a peer that
// have not left.
const AsksMax = 256

// A number of an operation has 32 bits, the lower eight of which are its place.
const (
	askSlotBits   = 8
	askRandomBits = 32 - askSlotBits
)

// noticePlaces is how many puts in chunks with a notice may be under way to a peer.
const noticePlaces = 64

// Peer is the state of the operations between this side and one peer.
type Peer[F any] struct {
	asks    slots.Table[*Operation[F]] // those that are answered, under their numbers
	waiting int                        // of these, sent and not answered yet

	lastPut uint32 // number of the latest put with a notice in chunks
	places  uint64 // of these puts that are under way, by number: a bit for each of noticePlaces

	notices   *[noticePlaces]Notice // of the peer's puts
	answering int                   // answers to the peer that have not left
}

// NewPeer makes a peer of which nothing was asked.
func NewPeer[F any]() *Peer[F] {
	p := new(Peer[F])
	p.asks.Init(askSlotBits, AsksMax)
	return p
}

// Full says whether no further operation can wait for an answer.
func (p *Peer[F]) Full() bool { return p != nil && p.asks.Full() }

// Waiting is the number of operations that wait for an answer of the peer.
func (p *Peer[F]) Waiting() int {
	if p == nil {
		return 0
	}
	return p.waiting
}

// All are the operations that have a number under which they will be answered, and nil where there
// is none. Answered and Service.End may be called meanwhile.
func (p *Peer[F]) All() []*Operation[F] {
	if p == nil {
		return nil
	}
	return p.asks.Values()
}

// number gives an operation a number, under which its answer will find it.
func (p *Peer[F]) number(o *Operation[F], random uint64) {
	number, ok := p.asks.Add(random&(1<<askRandomBits-1), o)
	if !ok {
		panic("remote: a number for one operation too many")
	}
	o.number, o.numbered = uint32(number), true
}

// Asked notes that the only packet of an operation is on its way. It says whether the operation
// waits for an answer from now on.
func (p *Peer[F]) Asked(o *Operation[F]) bool {
	if !o.numbered || o.code == frag.OpPart {
		return false
	}
	o.waits = true
	p.waiting++
	return true
}

// Answered notes that an operation waits for no answer any more: it came, or never will. It says
// whether the operation did.
func (p *Peer[F]) Answered(o *Operation[F]) bool {
	if !o.waits {
		return false
	}
	o.waits = false
	p.waiting--
	return true
}

// HasNoPlace says whether an operation is a put with a notice, which is to leave in chunks, and
// has to wait for an earlier one to end.
func (p *Peer[F]) HasNoPlace(o *Operation[F]) bool {
	return o.code == frag.OpPart && !o.numbered && p.places&place(p.lastPut+1) != 0
}

// TakePlace gives a put with a notice the next number, when its first packet is sent. Other
// operations, and one that has a number, stay as they are.
func (p *Peer[F]) TakePlace(o *Operation[F]) {
	if o.code != frag.OpPart || o.numbered {
		return
	}
	p.lastPut++
	o.number, o.numbered = p.lastPut, true
	p.places |= place(p.lastPut)
}

func place(number uint32) uint64 { return 1 << (number % noticePlaces) }

// crowded says whether so many answers have not left that no well-behaved peer asks for another.
func (p *Peer[F]) crowded() bool { return p.answering >= AsksMax }

// Owed is the number of answers to the peer that have not left.
func (p *Peer[F]) Owed() int {
	if p == nil {
		return 0
	}
	return p.answering
}

// Left notes that the last packet of an answer was sent, or that it never will be. reading: its
// region is read still.
func (p *Peer[F]) Left(o *Operation[F], reading bool) {
	if !o.owed {
		return
	}
	o.owed = false
	p.answering--
	if !reading {
		o.StopReading()
	}
}

// Check returns what is wrong with what was asked of the peer, nil if nothing is.
func (p *Peer[F]) Check() error {
	if p == nil {
		return nil
	}
	waiting := 0
	for slot, o := range p.asks.Values() {
		if o == nil {
			continue
		}
		if got, _ := p.asks.Get(uint64(o.number)); got != o || !o.numbered ||
			p.asks.Slot(uint64(o.number)) != uint32(slot) || o.code == frag.OpPart {
			return fmt.Errorf("remote: operation %#x, code %d, is not in its place", o.number, o.code)
		}
		if o.waits {
			waiting++
		}
	}
	if waiting != p.waiting || p.answering < 0 {
		return fmt.Errorf("remote: %d operations wait for an answer, %d counted; %d are owed", waiting,
			p.waiting, p.answering)
	}
	return p.asks.Check()
}
