package hotel

import (
	"math"
	"math/bits"
	"time"

	"gobtl/internal/mono"
)

// wheel is the part of a Hotel without the guests. The compiler compiles wheel only once for all
// types of guests.
type wheel struct {
	// next is no later than the instant at which the earliest guest is due. An Evict with nothing
	// to do therefore costs only a comparison with next. Only take lowers next.
	next mono.Time
	now  mono.Time // the latest instant seen

	// No guest has a tick below cur. The field limit is the first tick of far, two revolutions
	// after the start of cur's revolution. The ticks of near are therefore unique modulo the size
	// of near.
	cur, limit int64

	rooms  []room
	lists  []list   // near, then far
	bitmap []uint64 // a bit for each list that is not empty
	free   uint32   // top of the stack of vacant rooms
	near   int      // guests in near
	far    int      // guests in far

	nearSize, farSize    int64 // powers of two
	tickMask, lastTick   int64 // nanoseconds within a tick; last tick of a mono.Time
	tickShift, slotShift uint8 // below 64; masked where used, to tell the compiler
}

// room is a room without its guest. The links are indices of rooms. While the room is taken, prev
// and next are its neighbours in a list. While the room is free, next is its neighbour in the stack
// of free rooms, and prev is vacant.
type room struct {
	tick       int64
	prev, next uint32
	slot       uint32 // index of the list
	generation uint32 // of the present stay, or of the next stay
}

type list struct{ head, tail uint32 }

const (
	none   = math.MaxUint32     // the end of a list
	vacant = math.MaxUint32 - 1 // as prev: the room is free
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

// take moves the room on top of the stack into the wheel, and returns the room's generation. The
// stack must not be empty.
func (w *wheel) take(now mono.Time, stay time.Duration) (generation uint32) {
	w.now = max(w.now, now)
	tick := w.roundUp(w.now.Add(max(stay, 0)))
	if tick >= w.limit {
		w.turn() // the wheel turns only when necessary; the tick may be near now
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

// vacate removes a room from the wheel, and puts the room on the stack.
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

// valid reports whether number belongs to a stay in progress.
func (w *wheel) valid(number Room) bool {
	index := uint64(uint32(number))
	if index >= uint64(len(w.rooms)) {
		return false
	}
	r := &w.rooms[index]
	// A vacant room already has the generation of its next guest, whose number a caller might
	// guess.
	return r.generation == uint32(number>>32) && r.prev != vacant
}

// idle notes the instant, and reports whether certainly no guest is due.
func (w *wheel) idle(now mono.Time) bool {
	w.now = max(w.now, now)
	return w.now < w.next
}

// due returns the room of the first guest that is due. The caller must call turn directly before
// due, and turn must have returned true.
func (w *wheel) due() uint32 { return w.lists[w.nearSlot(w.cur)].head }

func (w *wheel) length() int { return w.near + w.far }

func (w *wheel) deadline() mono.Time {
	if w.length() == 0 {
		return mono.Never
	}
	// The field next of the wheel is not before the field cur. If next is beyond the near slots,
	// all near slots are empty. The list at next therefore tells whether next is exact.
	if w.empty(w.nearSlot(int64(w.next) >> w.tickShift)) {
		w.turn()
	}
	return w.next
}

// turn moves the current tick to the first tick with a guest that is due, and returns true. If no
// guest is due, turn moves the current tick to the present and returns false. After turn, next is
// as exact as the wheel allows.
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
			// The list held only guests that stay for whole turns of far. After a long jump many
			// turns of far may remain, and one look at all guests of far skips those turns.
			w.advance(min(w.firstFar(), present))
		}
	}
	wasFar := w.near == 0 && w.far > 0
	w.advance(present)
	if wasFar {
		first = w.first() // the first guest may be in near now
	}
	// The present value of next is a lower bound because no earlier guest has checked in since next
	// was set. The method first gives another lower bound.
	w.next = max(w.next, w.instant(first))
	return false
}

// advance moves the current tick forward, and moves the guests of far below the new limit to near.
// No guest may have a tick below the new current tick. Guests of one tick share a list before and
// after the move, and keep their order.
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

// approach distributes the guests of a list of far again after the limit has changed. Each guest
// moves to near, or stays in the same list if its deadline is more turns of far ahead.
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

// first returns a tick that is not later than any guest's tick. If near is not empty, the result is
// the earliest guest's own tick. If near is empty, the result is the start of the revolution in
// which the earliest guest may be. The wheel must not be empty.
func (w *wheel) first() int64 {
	if w.near > 0 {
		slot := w.nearSlot(w.cur)
		found := w.seek(slot, 0, uint32(w.nearSize>>6))
		return w.cur + int64(found-slot)&(w.nearSize-1)
	}
	return w.seekFar(w.limit>>w.slotShift) << w.slotShift
}

// firstFar returns the earliest tick of far, after a look at all guests of far. Far must not be
// empty.
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
