package vnic

import (
	"fmt"
	"slices"
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
	gaps  []gap  // by due; those of flows that wait no longer, too
	gap   uint64 // the latest number of one
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
	seqs []uint32 // of wait, a heap: see earlier
	gap  uint64   // number of the gap that the flow waits behind; 0: it does not wait
}

// gap is a gap in a flow.
type gap struct {
	flow   *orderFlow
	number uint64
	due    mono.Time // when it is given up
}

func (g gap) over() bool { return g.flow.gap != g.number }

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
		if f.wait == nil {
			f.wait = make(map[uint32][]byte)
		}
		kept := append([]byte(nil), packets...)
		f.wait[t.Seq] = kept
		f.push(t.Seq)
		o.bytes += charge(kept)
		o.held++
		for len(f.wait) > 0 && (o.bytes > o.max || len(f.wait) > orderTrainsMax) {
			o.giveUp(f, deliver)
		}
	}
	o.watch(now, f)
}

// watch sets the time when a gap is given up, if a flow waits and has none.
func (o *Order) watch(now mono.Time, f *orderFlow) {
	if len(f.wait) == 0 || f.gap != 0 {
		return
	}
	if len(o.gaps) >= gapsMax {
		o.gaps = slices.DeleteFunc(o.gaps, gap.over) // One of each flow is left.
	}
	o.gap++
	f.gap = o.gap
	o.gaps = append(o.gaps, gap{f, f.gap, now.Add(o.wait)})
}

// gapsMax bounds the list of gaps.
const gapsMax = 4 * orderFlowsMax

// earlier reports whether train i of the heap is before train j. All of them are within half of all
// numbers.
func (f *orderFlow) earlier(i, j int) bool { return int32(f.seqs[i]-f.seqs[j]) < 0 }

func (f *orderFlow) push(seq uint32) {
	f.seqs = append(f.seqs, seq)
	for i := len(f.seqs) - 1; i > 0 && f.earlier(i, (i-1)/2); i = (i - 1) / 2 {
		f.seqs[i], f.seqs[(i-1)/2] = f.seqs[(i-1)/2], f.seqs[i]
	}
}

// pop removes the earliest train from the heap.
func (f *orderFlow) pop() {
	last := len(f.seqs) - 1
	f.seqs[0] = f.seqs[last]
	f.seqs = f.seqs[:last]
	for i := 0; ; {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < last; child++ {
			if f.earlier(child, least) {
				least = child
			}
		}
		if least == i {
			return
		}
		f.seqs[i], f.seqs[least] = f.seqs[least], f.seqs[i]
		i = least
	}
}

// follow delivers the trains that waited for the previous train.
func (o *Order) follow(f *orderFlow, deliver func([]byte)) {
	f.gap = 0
	for len(f.seqs) > 0 && f.seqs[0] == f.next {
		packets := f.wait[f.next]
		delete(f.wait, f.next)
		f.pop()
		o.bytes -= charge(packets)
		o.held--
		deliver(packets)
		f.next++
	}
}

// giveUp skips the first gap of a flow that waits.
func (o *Order) giveUp(f *orderFlow, deliver func([]byte)) {
	o.Skipped++
	f.next = f.seqs[0]
	o.follow(f, deliver)
}

// Expire gives up the gaps that are too old.
func (o *Order) Expire(now mono.Time, deliver func([]byte)) {
	for o.Deadline() <= now {
		f := o.gaps[0].flow
		o.gaps = o.gaps[1:]
		o.giveUp(f, deliver)
		o.watch(now, f)
	}
}

// Deadline returns the instant at which Expire next has work.
func (o *Order) Deadline() mono.Time {
	for len(o.gaps) > 0 && o.gaps[0].over() {
		o.gaps = o.gaps[1:]
	}
	if len(o.gaps) == 0 {
		return mono.Never
	}
	return o.gaps[0].due
}
