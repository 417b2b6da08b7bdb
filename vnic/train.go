package vnic

import (
	"fmt"
	"maps"
	"slices"
	"time"

	"gobtl/internal/mono"
)

// A packet train is the content of a btl fragment, which carries several encapsulated packets of
// one flow. In a packet train, a header of eight bytes precedes the packets. The header of a packet
// train has the number of the train in its flow (u32, from 0 on), the entropy of the flow (u16) and
// the number of the switch (u16), in little-endian order.
const (
	TrainHeaderBytes = 8
	// TrainBytesMax is the largest size of a packet train. With segmentation offload, a packet
	// train holds the packets of one large frame.
	TrainBytesMax = 1 << 17
)

// Train is the header of a packet train (several encapsulated packets in one btl fragment).
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

// TrainFlows is the number of flows between two hosts on a switch that the headers of packet trains
// can name. The entropy of a flow is below TrainFlows.
const TrainFlows = 256

// errTrain is allocated only once, because a host can send many malformed trains in one datagram.
var errTrain = fmt.Errorf("%w: packet train", ErrLength)

// ParseTrain decodes the header of a packet train. The error of ParseTrain is ErrLength if the
// train has no packets, is too long, or has a VESW above VESWMax. The Entropy can be TrainFlows or
// more. NextPacket splits the returned packets.
func ParseTrain(b []byte) (t Train, packets []byte, err error) {
	if len(b) <= TrainHeaderBytes || len(b) > TrainBytesMax ||
		le.Uint16(b[6:]) > VESWMax {
		return t, nil, errTrain
	}
	t = Train{Seq: le.Uint32(b), VESW: le.Uint16(b[6:]), Entropy: le.Uint16(b[4:])}
	return t, b[TrainHeaderBytes:], nil
}

// NextPacket splits off the first packet of b. If b is empty, the packet is nil. For invalid bytes,
// NextPacket returns all of b as a packet, for which Parse returns an error.
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

// Order restores the order of a peer's packet trains within each flow. A packet train that arrives
// before an earlier train of its flow waits for the earlier train. The waiting time, the number and
// the memory of waiting packet trains are limited. If a limit is exceeded, Order skips the gap of
// missing train numbers, delivers the packet trains after the gap, and counts the gap in the field
// Skipped. An Order keeps the state of at most orderFlowsMax flows, which is the number of flows
// that all ports of a host can have. If a further flow begins, the Order discards the state of all
// flows without waiting trains. After its state was discarded, a flow's next train waits as if
// earlier trains were missing.
type Order struct {
	// Early counts packet trains that waited for an earlier train. Late counts packet trains that
	// arrived after Order had skipped the gap in the train numbers to which they belong. Skipped
	// counts the gaps that Order has skipped.
	Early, Late, Skipped uint64

	flows map[orderKey]*orderFlow
	gaps  []gap  // ascending by due; may contain filled gaps
	gap   uint64 // number of the latest gap
	bytes int
	held  int
	wait  time.Duration
	max   int
	room  *OrderRoom // nil if the Order shares no memory
}

// The constants below limit the number and the memory of packet trains of one peer that wait for an
// earlier train of their flow.
const (
	orderWaitDefault = 20 * time.Millisecond
	orderBytesMax    = 8 << 20
	orderFlowsMax    = VportMax * TrainFlows
	orderTrainsMax   = 4096 // per flow
	// While the trains that wait in all Orders of an OrderRoom have more than orderRoomBytes, an Order
	// that takes a further train may hold at most an equal share of orderRoomBytes.
	orderRoomBytes = 32 << 20
	// orderTrainBytes is the size of the bookkeeping memory that Order counts for each waiting packet
	// train, in addition to the packets.
	orderTrainBytes = 512
	// A flow has room for orderKeptTrains waiting trains without a new allocation of bookkeeping
	// memory for each train.
	orderKeptTrains = 8
)

func charge(packets []byte) int { return cap(packets) + orderTrainBytes }

type orderKey struct {
	vesw    uint16
	entropy uint16
}

type orderFlow struct {
	next uint32
	wait map[uint32][]byte
	seqs []uint32 // keys of wait as a heap, ordered by earlier
	gap  uint64   // number of the gap that blocks the flow; 0 if none
}

// gap is a gap in the train numbers of a flow.
type gap struct {
	flow   *orderFlow
	number uint64
	due    mono.Time // when the gap is skipped
}

func (g gap) over() bool { return g.flow.gap != g.number }

// NewOrder returns an Order without flows. The argument "wait" of NewOrder is the time after which
// Order skips a gap in the train numbers. If "wait" is 0, Order skips a gap after 20 ms.
func NewOrder(wait time.Duration) *Order {
	if wait == 0 {
		wait = orderWaitDefault
	}
	return &Order{flows: make(map[orderKey]*orderFlow), wait: wait, max: orderBytesMax}
}

// Take passes the packets of a packet train to the function "deliver". If a packet train arrives
// before an earlier train of its flow, Take copies the train, and a later call of Take or Expire
// delivers the packets of the copy. On each connection, the numbers of the packet trains in a flow
// begin with 0.
func (o *Order) Take(now mono.Time, t Train, packets []byte, deliver func([]byte)) {
	key := orderKey{t.VESW, t.Entropy}
	f := o.flows[key]
	if f == nil {
		if len(o.flows) >= orderFlowsMax { // orderBytesMax has no room for a waiting train of each
			maps.DeleteFunc(o.flows, func(_ orderKey, f *orderFlow) bool { return len(f.wait) == 0 })
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
	case ahead < 0: // the gap was skipped
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
		o.hold(charge(kept))
		o.held++
		for len(f.wait) > 0 && (o.bytes > o.most() || len(f.wait) > orderTrainsMax) {
			o.giveUp(f, deliver)
		}
	}
	o.watch(now, f)
}

// OrderRoom limits the memory of the packet trains that wait in several Orders. While the waiting
// trains of all Orders have more than 32 MiB, an Order accepts a further waiting train only if the
// waiting trains of this Order then have at most an equal share of 32 MiB. Trains that already wait
// can have more than the equal share of their Order, until the next call of Take for their flow, or
// until Expire. The trains that wait in n Orders (n > 4) have at most (1 + ln(n/4)) times 32 MiB,
// plus one train per Order. The trains that wait in 1000 Orders have less than 7 times 32 MiB, plus
// 1000 trains. Only the goroutine that uses the Orders may use the OrderRoom.
type OrderRoom struct {
	bytes  int
	orders int // Orders in which packet trains wait
}

// Admit makes an Order share the memory limit of the OrderRoom. The Order must have no waiting
// trains.
func (r *OrderRoom) Admit(o *Order) { o.room = r }

// Remove ends the use of an Order's memory. The waiting trains of the Order are dropped. The caller
// must not use the Order afterwards.
func (r *OrderRoom) Remove(o *Order) { o.hold(-o.bytes) }

// The method "hold" adds n bytes to the memory of the waiting packet trains. A negative n gives
// memory back.
func (o *Order) hold(n int) {
	if r := o.room; r != nil {
		r.bytes += n
		if o.bytes == 0 && n > 0 {
			r.orders++
		} else if o.bytes > 0 && o.bytes+n == 0 {
			r.orders--
		}
	}
	o.bytes += n
}

// The method "most" returns the largest number of bytes that the waiting packet trains of an Order
// may have at present.
func (o *Order) most() int {
	if o.room == nil || o.room.bytes <= orderRoomBytes {
		return o.max
	}
	return min(o.max, orderRoomBytes/o.room.orders)
}

// watch records the first gap in the train numbers of a flow, if packet trains of the flow wait and
// no gap of the flow is recorded yet.
func (o *Order) watch(now mono.Time, f *orderFlow) {
	if len(f.wait) == 0 || f.gap != 0 {
		return
	}
	if len(o.gaps) >= gapsMax {
		o.gaps = slices.DeleteFunc(o.gaps, gap.over) // leaves at most one gap per flow
	}
	o.gap++
	f.gap = o.gap
	o.gaps = append(o.gaps, gap{f, f.gap, now.Add(o.wait)})
}

// When the list of gaps in train numbers has gapsMax elements, Order removes from the list those
// gaps whose missing packet trains have arrived.
const gapsMax = 2 * orderFlowsMax

// The method "earlier" reports whether element i of the heap has a smaller train number than
// element j. The train numbers in a heap can wrap around, but differ by less than half of the
// number range.
func (f *orderFlow) earlier(i, j int) bool { return int32(f.seqs[i]-f.seqs[j]) < 0 }

func (f *orderFlow) push(seq uint32) {
	f.seqs = append(f.seqs, seq)
	for i := len(f.seqs) - 1; i > 0 && f.earlier(i, (i-1)/2); i = (i - 1) / 2 {
		f.seqs[i], f.seqs[(i-1)/2] = f.seqs[(i-1)/2], f.seqs[i]
	}
}

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

// follow delivers the waiting packet trains that follow the latest delivered train without a gap
// in the train numbers.
func (o *Order) follow(f *orderFlow, deliver func([]byte)) {
	f.gap = 0
	for len(f.seqs) > 0 && f.seqs[0] == f.next {
		packets := f.wait[f.next]
		delete(f.wait, f.next)
		f.pop()
		o.hold(-charge(packets))
		o.held--
		deliver(packets)
		f.next++
	}
	f.shrink()
}

// The method "shrink" frees bookkeeping memory of a flow that has grown for trains that no longer
// wait.
func (f *orderFlow) shrink() {
	switch {
	case cap(f.seqs) <= orderKeptTrains || len(f.seqs) > cap(f.seqs)/4:
	case len(f.seqs) == 0:
		f.wait, f.seqs = nil, nil
	default: // a map and a slice keep their largest size
		wait := make(map[uint32][]byte, len(f.seqs))
		maps.Copy(wait, f.wait)
		f.wait, f.seqs = wait, slices.Clone(f.seqs)
	}
}

// giveUp skips the first gap in the train numbers of a flow, and delivers the packet trains after
// the gap.
func (o *Order) giveUp(f *orderFlow, deliver func([]byte)) {
	o.Skipped++
	f.next = f.seqs[0]
	o.follow(f, deliver)
}

// Expire skips the gaps in train numbers whose waiting time is over, and delivers the packet trains
// after these gaps.
func (o *Order) Expire(now mono.Time, deliver func([]byte)) {
	for o.Deadline() <= now {
		f := o.gaps[0].flow
		o.gaps = o.gaps[1:]
		o.giveUp(f, deliver)
		o.watch(now, f)
	}
}

// Deadline returns the time at which the caller must next call Expire, or mono.Never if no packet
// train waits.
func (o *Order) Deadline() mono.Time {
	for len(o.gaps) > 0 && o.gaps[0].over() {
		o.gaps = o.gaps[1:]
	}
	if len(o.gaps) == 0 {
		return mono.Never
	}
	return o.gaps[0].due
}
