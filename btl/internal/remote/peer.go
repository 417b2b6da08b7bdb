package remote

import (
	"fmt"

	"gobtl/frag"
	"gobtl/internal/slots"
)

// AsksMax is the maximum number of unanswered operations to a peer, and equally the maximum number
// of unsent answers to a peer.
const AsksMax = 256

// The number of an operation has 32 bits. The lower eight bits of an operation's number are its
// slot in the table of unanswered operations.
const (
	askSlotBits   = 8
	askRandomBits = 32 - askSlotBits
)

// noticePlaces is the maximum number of puts in chunks with a notification that are in progress to
// one peer at the same time.
const noticePlaces = 64

// Peer is the state of the memory operations between this side and one peer.
type Peer[F any] struct {
	asks    slots.Table[*Operation[F]] // operations that get an answer, by number
	waiting int                        // number of operations in asks that wait for their answers
	gets    int                        // number of gets in asks, each of which uses a region

	lastPut uint32 // number of the latest put in chunks with a notification
	places  uint64 // one bit for each put in chunks in progress, by number

	notices   *[noticePlaces]Notice // state of the peer's puts with a notification
	answering int                   // number of unsent answers to the peer
}

// NewPeer makes a peer without operations.
func NewPeer[F any]() *Peer[F] {
	p := new(Peer[F])
	p.asks.Init(askSlotBits, AsksMax)
	return p
}

// Full reports whether the number of operations that wait for an answer of the peer has reached the
// maximum, AsksMax.
func (p *Peer[F]) Full() bool { return p != nil && p.asks.Full() }

// Waiting returns the number of operations that wait for an answer of the peer.
func (p *Peer[F]) Waiting() int {
	if p == nil {
		return 0
	}
	return p.waiting
}

// All returns the operations that have a number by which answers identify them. In the slice that
// All returns, the index of an operation is its slot, and free slots contain nil. The caller may
// call Answered and Service.End while it iterates over the slice that All returns.
func (p *Peer[F]) All() []*Operation[F] {
	if p == nil {
		return nil
	}
	return p.asks.Values()
}

// The method "number" assigns a number to an operation, by which the answer will identify the
// operation.
func (p *Peer[F]) number(o *Operation[F], random uint64) {
	number, ok := p.asks.Add(random&(1<<askRandomBits-1), o)
	if !ok {
		panic("remote: a number for one operation too many")
	}
	o.Number, o.numbered = uint32(number), true
}

// Asked records that the only packet of an operation was sent. Asked reports whether the operation
// now waits for an answer.
func (p *Peer[F]) Asked(o *Operation[F]) bool {
	if !o.numbered || o.Code == frag.OpPart {
		return false
	}
	o.waits = true
	p.waiting++
	return true
}

// Answered records that an operation no longer waits for an answer, because the answer has arrived
// or will not arrive. Answered reports whether the operation was waiting for an answer.
func (p *Peer[F]) Answered(o *Operation[F]) bool {
	if !o.waits {
		return false
	}
	o.waits = false
	p.waiting--
	return true
}

// HasNoPlace reports whether the operation is a put in chunks with a notification, and must wait
// because a previous put in chunks with a notification still uses its slot.
func (p *Peer[F]) HasNoPlace(o *Operation[F]) bool {
	return o.Code == frag.OpPart && !o.numbered && p.places&place(p.lastPut+1) != 0
}

// TakePlace assigns the next number to a put with a notification, when the first packet of the put
// is sent. TakePlace does nothing if the operation is not a put with a notification, or already has
// a number.
func (p *Peer[F]) TakePlace(o *Operation[F]) {
	if o.Code != frag.OpPart || o.numbered {
		return
	}
	p.lastPut++
	o.Number, o.numbered = p.lastPut, true
	p.places |= place(p.lastPut)
}

func place(number uint32) uint64 { return 1 << (number % noticePlaces) }

// The method "crowded" reports whether the number of unsent answers to the peer has reached
// AsksMax.
func (p *Peer[F]) crowded() bool { return p.answering >= AsksMax }

// Owed returns the number of unsent answers to the peer.
func (p *Peer[F]) Owed() int {
	if p == nil {
		return 0
	}
	return p.answering
}

// Left records that the last packet of an answer was sent or was given up. The argument "reading"
// of Left says whether it is possible that the answer reads its region again.
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

// Check returns an error if the operations of the peer are inconsistent, and nil otherwise.
func (p *Peer[F]) Check() error {
	if p == nil {
		return nil
	}
	waiting, gets := 0, 0
	for slot, o := range p.asks.Values() {
		if o == nil {
			continue
		}
		if got, _ := p.asks.Get(uint64(o.Number)); got != o || !o.numbered ||
			p.asks.Slot(uint64(o.Number)) != uint32(slot) || o.Code == frag.OpPart {
			return fmt.Errorf("remote: operation %#x, code %d, is not in its place", o.Number, o.Code)
		}
		if o.waits {
			waiting++
		}
		if o.Code == frag.OpGet {
			gets++
		}
	}
	if waiting != p.waiting || gets != p.gets || p.answering < 0 {
		return fmt.Errorf("remote: %d operations wait for an answer and %d are gets, counted %d and %d; "+
			"%d are owed", waiting, gets, p.waiting, p.gets, p.answering)
	}
	return p.asks.Check()
}
