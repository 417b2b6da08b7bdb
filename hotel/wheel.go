package hotel

import (
	"math"
	"math/bits"
	"time"

	"gobtl/internal/mono"
)

// wheel is the hotel without its guests, so that it is compiled once for all types of them.
type wheel struct {
	// next is no later than the instant at which the earliest guest falls due: what makes an Evict
	// with nothing to do a comparison. Only take lowers it.
	next mono.Time
	now  mono.Time // the latest instant seen

	// cur is a tick that no guest's is below. limit is where far begins: two revolutions on from
	// the start of cur's revolution, so the ticks of near are unique modulo its size.
	cur, limit int64

	rooms  []room
	lists  []list   // near, then far
	bitmap []uint64 // a bit for each list that is not empty
	free   uint32   // top of the stack of vacant rooms
	near   int      // guests in near
	far    int      // guests in far

	nearSize, farSize    int64 // powers of two
	tickMask, lastTick   int64 // nanoseconds within a tick; the last tick that a mono.Time can hold
	tickShift, slotShift uint8 // below 64; masked where it counts, so that the compiler knows it too
}

// room is a room without its guest. The links are indices of rooms: prev and next in a list while
// it is taken; next in the stack of free rooms, and prev == vacant, while it is not.
type room struct {
	tick       int64
	prev, next uint32
	slot       uint32 // index of the list
	generation uint32 // of the stay in progress, or of the next one
}

type list struct{ head, tail uint32 }

const (
	none   = math.MaxUint32     // the end of a list
	vacant = math.MaxUint32 - 1 // as prev: nobody lives here
)

func newWheel(cfg Config) wheel {
	w := wheel{
		next:      mono.Never,
		now:       math.MinInt64,
		rooms:     make([]room, cfg.Rooms),
		lists:     make([]list, 3*cfg.Slots),
		bitmap:    make([]uint64, 3*cfg.Slots/64),
		nearSize:  2 * int64(cfg.Slots),
		farSize:   int64(cfg.Slots),
		tickMask:  cfg.TickNs - 1,
		lastTick:  math.MaxInt64 / cfg.TickNs,
		tickShift: uint8(bits.TrailingZeros64(uint64(cfg.TickNs))),
		slotShift: uint8(bits.TrailingZeros64(uint64(cfg.Slots))),
	}
	w.cur = int64(w.now) >> w.tickShift
	w.limit = w.limitAt(w.cur)
	for i := range w.lists {
		w.lists[i] = list{head: none, tail: none}
	}
	for i := range w.rooms {
		w.rooms[i] = room{prev: vacant, next: uint32(i) + 1, generation: 1}
	}
	w.rooms[len(w.rooms)-1].next = none
	return w
}

// take moves the room on top of the stack, which must not be empty, into the wheel, and returns its
// generation.
func (w *wheel) take(now mono.Time, stay time.Duration) (generation uint32) {
	w.now = max(w.now, now)
	tick := w.roundUp(w.now.Add(max(stay, 0)))
	if tick >= w.limit {
		w.turn() // the wheel turns only when it must; at the present this tick may be near
	}
	if at := w.instant(tick); at < w.next {
		w.next = at
	}
	index := w.free
	r := &w.rooms[index]
	w.free = r.next
	r.tick = tick
	w.link(w.slot(tick), r, index)
	return r.generation
}

// vacate takes a room out of the wheel and puts it on the stack.
func (w *wheel) vacate(index uint32) {
	r := &w.rooms[index]
	w.unlink(r)
	r.generation++
	if r.generation == 0 {
		r.generation = 1
	}
	r.prev = vacant
	r.next = w.free
	w.free = index
}

// valid says whether the number is that of a stay in progress.
func (w *wheel) valid(number Room) bool {
	index := uint64(uint32(number))
	if index >= uint64(len(w.rooms)) {
		return false
	}
	r := &w.rooms[index]
	// A vacant room already has the generation of its next guest, whose number somebody might guess.
	return r.generation == uint32(number>>32) && r.prev != vacant
}

// idle notes the instant and says whether surely nobody is due.
func (w *wheel) idle(now mono.Time) bool {
	w.now = max(w.now, now)
	return w.now < w.next
}

// due returns the room of the first guest that is due; turn must just have been true.
func (w *wheel) due() uint32 { return w.lists[w.nearSlot(w.cur)].head }

func (w *wheel) length() int { return w.near + w.far }

func (w *wheel) deadline() mono.Time {
	if w.length() == 0 {
		return mono.Never
	}
	// Next is not before cur, and beyond near only when near is empty: so the list at next says
	// whether next is exact.
	if w.empty(w.nearSlot(int64(w.next) >> w.tickShift)) {
		w.turn()
	}
	return w.next
}

// turn moves the current tick to the first that has a guest due, and is true, or to the present
// when nobody is due. It makes next as exact as the wheel can tell.
func (w *wheel) turn() (due bool) {
	present := int64(w.now) >> w.tickShift
	first := int64(math.MaxInt64)
	for w.length() > 0 {
		if first = w.first(); first > present {
			break
		}
		w.advance(first)
		if !w.empty(w.nearSlot(first)) {
			w.next = w.instant(first)
			return true
		}
		if w.near == 0 {
			// The list held only guests that stay for whole turns of far. After a long jump there
			// may be many such turns to go: one look at everybody skips them.
			w.advance(min(w.firstFar(), present))
		}
	}
	wasFar := w.near == 0 && w.far > 0
	w.advance(present)
	if wasFar {
		first = w.first() // it may be near now, and exact
	}
	// Both are lower bounds: next because nobody earlier has checked in since, first by the lists.
	w.next = max(w.next, w.instant(first))
	return false
}

// advance moves the current tick forward to one that no guest's is below, and moves to near those
// of far whom the new limit passes. Guests of one tick share a list before and after, so they keep
// their order.
func (w *wheel) advance(tick int64) {
	w.cur = tick
	limit := w.limitAt(w.cur)
	if limit <= w.limit {
		return
	}
	turn := w.limit >> w.slotShift
	end := min(limit>>w.slotShift, turn+w.farSize)
	w.limit = limit
	for ; turn < end && w.far > 0; turn++ {
		if turn = w.seekFar(turn); turn < end {
			w.approach(w.farSlot(turn))
		}
	}
}

// approach puts everybody in a list of far where the limit now wants them: in near or, when they
// stay for more turns of far, back in the same list.
func (w *wheel) approach(slot uint32) {
	index := w.lists[slot].head
	w.lists[slot] = list{head: none, tail: none}
	w.unmark(slot)
	for index != none {
		r := &w.rooms[index]
		next := r.next
		w.far--
		w.link(w.slot(r.tick), r, index)
		index = next
	}
}

// first returns a tick that no guest's is below: the earliest guest's own when anybody is near,
// else the start of the revolution in which the earliest may be. The wheel must not be empty.
func (w *wheel) first() int64 {
	if w.near > 0 {
		slot := w.nearSlot(w.cur)
		found := w.seek(slot, 0, uint32(w.nearSize>>6))
		return w.cur + int64(found-slot)&(w.nearSize-1)
	}
	return w.seekFar(w.limit>>w.slotShift) << w.slotShift
}

// firstFar returns the earliest tick of far by looking at everybody there. Far must not be empty.
func (w *wheel) firstFar() int64 {
	earliest := int64(math.MaxInt64)
	turn := w.limit >> w.slotShift
	for end := turn + w.farSize; turn < end; turn++ {
		if turn = w.seekFar(turn); turn >= end {
			break
		}
		for i := w.lists[w.farSlot(turn)].head; i != none; i = w.rooms[i].next {
			earliest = min(earliest, w.rooms[i].tick)
		}
	}
	return earliest
}
