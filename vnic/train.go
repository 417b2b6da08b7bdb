package vnic

import (
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// A train is the content of a btl fragment: a header of eight bytes and contiguous packets of one
// flow, each with its length:
//
//	0  u32  number of the train in its flow, from 0 on
//	4  u16  entropy of the flow
//	6  u16  number of the switch
const (
	TrainHeaderBytes = 8
	// TrainBytesMax bounds a train: the packets of one segmentation-offload frame.
	TrainBytesMax = 1 << 17
)

// Train is the header of a train.
type Train struct {
	Seq     uint32
	VESW    uint16
	Entropy uint16
}

// Put writes the header to b.
func (t *Train) Put(b []byte) {
	le.PutUint32(b, t.Seq)
	le.PutUint16(b[4:], t.Entropy)
	le.PutUint16(b[6:], t.VESW)
}

// ParseTrain decodes the header. A train without packets is invalid. NextPacket splits the packets.
func ParseTrain(b []byte) (t Train, packets []byte, err error) {
	if len(b) <= TrainHeaderBytes || len(b) > TrainBytesMax ||
		le.Uint16(b[6:]) > VESWMax {
		return t, nil, fmt.Errorf("%w: train of %d bytes", ErrLength, len(b))
	}
	t = Train{Seq: le.Uint32(b), VESW: le.Uint16(b[6:]), Entropy: le.Uint16(b[4:])}
	return t, b[TrainHeaderBytes:], nil
}

// NextPacket splits off the first packet; nil means the end of the train. For invalid bytes it
// returns a packet that Parse refuses.
func NextPacket(b []byte) (packet, rest []byte) {
	if len(b) == 0 {
		return nil, nil
	}
	n := PacketSize(b)
	if n == 0 {
		return b, nil
	}
	return b[:n], b[n:]
}

// Order restores the order of the trains of a peer within each flow. Early trains wait, within
// bounds of time and memory. Trains that would exceed the bounds are delivered out of order, and
// counted.
type Order struct {
	// Counts of trains.
	Early, Late, Skipped uint64

	flows map[orderKey]*orderFlow
	bytes int
	held  int
	wait  time.Duration
	max   int
}

// Bounds of what waits, for one peer.
const (
	orderWaitDefault = 20 * time.Millisecond
	orderBytesMax    = 8 << 20
	orderFlowsMax    = 4096
	orderTrainsMax   = 4096 // of a flow
	// orderTrainBytes is charged for each train beside its packets.
	orderTrainBytes = 128
)

// charge returns the memory of a waiting train.
func charge(packets []byte) int { return cap(packets) + orderTrainBytes }

type orderKey struct {
	vesw    uint16
	entropy uint16
}

type orderFlow struct {
	next uint32
	wait map[uint32][]byte
	due  mono.Time // when the gap is given up
}

// NewOrder returns an Order without flows; wait is how long a gap holds up a flow, 0 means 20 ms.
func NewOrder(wait time.Duration) *Order {
	if wait == 0 {
		wait = orderWaitDefault
	}
	return &Order{flows: make(map[orderKey]*orderFlow), wait: wait, max: orderBytesMax}
}

// Take delivers the packets of a train, at once or later. A waiting train is copied. The numbers of
// a flow begin with 0 on each connection.
func (o *Order) Take(now mono.Time, t Train, packets []byte, deliver func([]byte)) {
	key := orderKey{t.VESW, t.Entropy}
	f := o.flows[key]
	if f == nil {
		if len(o.flows) >= orderFlowsMax {
			deliver(packets)
			return
		}
		f = &orderFlow{}
		o.flows[key] = f
	}
	ahead := int32(t.Seq - f.next)
	switch {
	case ahead == 0:
		deliver(packets)
		f.next++
		o.follow(f, deliver)
	case ahead < 0: // its gap was given up
		o.Late++
		deliver(packets)
	default:
		if _, twice := f.wait[t.Seq]; twice {
			return
		}
		o.Early++
		if len(f.wait) == 0 {
			f.due = now.Add(o.wait)
		}
		if f.wait == nil {
			f.wait = make(map[uint32][]byte)
		}
		kept := append([]byte(nil), packets...)
		f.wait[t.Seq] = kept
		o.bytes += charge(kept)
		o.held++
		for len(f.wait) > 0 && (o.bytes > o.max || len(f.wait) > orderTrainsMax) {
			o.giveUp(f, deliver)
		}
	}
	if len(f.wait) > 0 && f.due == 0 {
		f.due = now.Add(o.wait)
	}
}

// follow delivers the trains that waited for the previous train.
func (o *Order) follow(f *orderFlow, deliver func([]byte)) {
	for {
		packets, ok := f.wait[f.next]
		if !ok {
			f.due = 0
			return
		}
		delete(f.wait, f.next)
		o.bytes -= charge(packets)
		o.held--
		deliver(packets)
		f.next++
	}
}

// giveUp skips a flow's first gap.
func (o *Order) giveUp(f *orderFlow, deliver func([]byte)) {
	first, found := uint32(0), false
	for seq := range f.wait {
		if !found || int32(seq-first) < 0 {
			first, found = seq, true
		}
	}
	if !found {
		return
	}
	o.Skipped++
	f.next = first
	o.follow(f, deliver)
}

// Expire gives up the gaps that are too old.
func (o *Order) Expire(now mono.Time, deliver func([]byte)) {
	if o.held == 0 {
		return
	}
	for _, f := range o.flows {
		if len(f.wait) > 0 && f.due <= now {
			o.giveUp(f, deliver)
			if len(f.wait) > 0 {
				f.due = now.Add(o.wait)
			}
		}
	}
}

// Deadline returns the instant at which Expire next has work.
func (o *Order) Deadline() mono.Time {
	at := mono.Never
	if o.held == 0 {
		return at
	}
	for _, f := range o.flows {
		if len(f.wait) > 0 {
			at = at.Min(f.due)
		}
	}
	return at
}
