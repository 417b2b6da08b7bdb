package hotel

import (
	"math"
	"math/bits"
	"time"

	"gobtl/internal/mono"
)

// The type "wheel" is the part of a Hotel that does not depend on the type of the values.
type wheel struct {
	// The field "next" of a wheel is a lower bound for the end of the first time-out. A call of Evict
	// before the time in the field "next" needs only one comparison. Only the method "take" may lower
	// the field "next".
	next mono.Time
	now  mono.Time // the latest instant seen

	// The field "cur" is the current tick. All time-outs in the hotel end at the tick "cur" or at
	// later ticks. The field "limit" is the first tick that belongs to the second timing wheel. The
	// tick "limit" is two revolutions after the start of the current revolution.
	cur, limit int64

	rooms  []room
	lists  []list   // near, then far
	bitmap []uint64 // a bit for each list that is not empty
	free   uint32   // top of the stack of vacant rooms
	near   int      // number of values in near
	far    int      // number of values in far

	nearSize, farSize    int64 // powers of two
	tickMask, lastTick   int64 // nanoseconds within a tick; last tick of a mono.Time
	tickShift, slotShift uint8 // below 64; masked where used, to tell the compiler
}

// The type "room" is an entry of the timer table, without its value. The fields "prev" and "next"
// of a room are table indices. While a room holds a value, "prev" and "next" are the room's
// neighbours in a doubly linked list. In a free room, the field "next" is the next room in the
// stack of free rooms, and the field "prev" is the constant "vacant".
type room struct {
	tick       int64
	prev, next uint32
	slot       uint32 // index of the list
	generation uint32 // of the present value, or of the next value
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
	w.limit = (w.cur>>w.slotShift + 2) << w.slotShift
	for i := range w.lists {
		w.lists[i] = list{head: none, tail: none}
	}
	for i := range w.rooms {
		w.rooms[i] = room{prev: vacant, next: uint32(i) + 1, generation: 1}
	}
	w.rooms[len(w.rooms)-1].next = none
	return w
}

// The method "take" moves the top room (table entry) from the stack of free rooms into a timing
// wheel, and returns the generation of this room. The caller of the method "take" must have checked
// that there is a free room.
func (w *wheel) take(now mono.Time, stay time.Duration) (generation uint32) {
	w.now = max(w.now, now)
	end := int64(w.now.Add(max(stay, 0)))
	tick := end >> (w.tickShift & 63)
	if end&w.tickMask != 0 { // rounded up
		tick++
	}
	if tick >= w.limit {
		w.turn() // a turn raises the limit, and the tick may then be below it
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

// The method "valid" reports whether a room number belongs to a value in the hotel.
func (w *wheel) valid(number Room) bool {
	index := uint64(uint32(number))
	if index >= uint64(len(w.rooms)) {
		return false
	}
	r := &w.rooms[index]
	return r.generation == uint32(number>>32) && r.prev != vacant
}

// The method "turn" sets the current tick to the tick of the first expired time-out or, if no
// time-out has expired, to the tick of the present time. The result "due" of the method "turn" says
// whether a time-out has expired. The method "turn" always updates the field "next".
func (w *wheel) turn() (due bool) {
	present := int64(w.now) >> w.tickShift
	first := int64(math.MaxInt64)
	for w.near+w.far > 0 {
		if first = w.first(); first > present {
			break
		}
		w.advance(first)
		if w.lists[w.nearSlot(first)].head != none {
			w.next = w.instant(first)
			return true
		}
		if w.near == 0 {
			w.advance(min(w.firstFar(), present))
		}
	}
	wasFar := w.near == 0 && w.far > 0
	w.advance(present)
	if wasFar {
		first = w.first() // the first value may be in near now
	}
	w.next = max(w.next, w.instant(first))
	return false
}

// The method "advance" sets the current tick and the field "limit". The values whose ticks are
// below the new limit move from the second timing wheel to the first one.
func (w *wheel) advance(tick int64) {
	w.cur = tick
	limit := (w.cur>>w.slotShift + 2) << w.slotShift
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

// The method "approach" examines the values in a list of the second timing wheel after the field
// "limit" has increased. Each value whose tick is below the new limit moves to the first timing
// wheel. Values whose ticks are not below the new limit stay in the second timing wheel.
func (w *wheel) approach(slot uint32) {
	index := w.lists[slot].head
	w.lists[slot] = list{head: none, tail: none}
	w.bitmap[slot>>6] &^= 1 << (slot & 63)
	for index != none {
		r := &w.rooms[index]
		next := r.next
		w.far--
		w.link(w.slot(r.tick), r, index)
		index = next
	}
}

// The method "first" returns a lower bound for the tick of the hotel's first time-out. If the first
// timing wheel is not empty, the result of the method "first" is exactly the tick of the first
// time-out. If the first timing wheel is empty, the method "first" returns the first tick of the
// earliest revolution that can contain a time-out. The hotel must not be empty when the method
// "first" is called.
func (w *wheel) first() int64 {
	if w.near > 0 {
		slot := w.nearSlot(w.cur)
		found := w.seek(slot, 0, uint32(w.nearSize>>6))
		return w.cur + int64(found-slot)&(w.nearSize-1)
	}
	return w.seekFar(w.limit>>w.slotShift) << w.slotShift
}

// firstFar returns the earliest tick of a value in the second timing wheel, after a search of all
// its values. The second timing wheel must not be empty when firstFar is called.
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
