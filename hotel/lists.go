package hotel

import (
	"math/bits"

	"gobtl/internal/mono"
)

// The method "instant" returns the time at which a tick begins. For a tick that begins later than
// any mono.Time, the method "instant" returns mono.Never.
func (w *wheel) instant(tick int64) mono.Time {
	if tick > w.lastTick {
		return mono.Never
	}
	return mono.Time(tick << (w.tickShift & 63))
}

// nearSlot returns the index of the list of the first timing wheel that holds the given tick.
func (w *wheel) nearSlot(tick int64) uint32 { return uint32(tick & (w.nearSize - 1)) }

// farSlot returns the index of the list of the second timing wheel that holds the ticks of a
// revolution. The number of a revolution is tick >> slotShift.
func (w *wheel) farSlot(revolution int64) uint32 {
	return uint32(w.nearSize + revolution&(w.farSize-1))
}

func (w *wheel) slot(tick int64) uint32 {
	if tick < w.limit {
		return w.nearSlot(tick)
	}
	return w.farSlot(tick >> (w.slotShift & 63))
}

func (w *wheel) count(slot uint32, n int) {
	if int64(slot) < w.nearSize {
		w.near += n
	} else {
		w.far += n
	}
}

// The method "link" appends a room (an entry of the timer table) to a list of a timing wheel.
func (w *wheel) link(slot uint32, r *room, index uint32) {
	l := &w.lists[slot]
	r.slot = slot
	r.prev = l.tail
	r.next = none
	if l.tail == none {
		l.head = index
		w.bitmap[slot>>6] |= 1 << (slot & 63)
	} else {
		w.rooms[l.tail].next = index
	}
	l.tail = index
	w.count(slot, 1)
}

// The method "unlink" removes a room (an entry of the timer table) from its list.
func (w *wheel) unlink(r *room) {
	l := &w.lists[r.slot]
	switch {
	case r.prev == none && r.next == none:
		*l = list{head: none, tail: none}
		w.bitmap[r.slot>>6] &^= 1 << (r.slot & 63)
	case r.prev == none:
		l.head = r.next
		w.rooms[r.next].prev = none
	case r.next == none:
		l.tail = r.prev
		w.rooms[r.prev].next = none
	default:
		w.rooms[r.prev].next = r.next
		w.rooms[r.next].prev = r.prev
	}
	w.count(r.slot, -1)
}

// Starting the search with the given revolution, seekFar returns the first revolution whose list in
// the second timing wheel is not empty. The second timing wheel (far) must not be empty when
// seekFar is called.
func (w *wheel) seekFar(revolution int64) int64 {
	slot := w.farSlot(revolution)
	found := w.seek(slot, uint32(w.nearSize>>6), uint32(w.farSize>>6))
	return revolution + int64(found-slot)&(w.farSize-1)
}

// The method "seek" returns the index of the first list that is not empty, starting with the list
// of the index "slot". The method "seek" searches the given number of bitmap words, beginning with
// the word "first", and wraps around after the last word. The method "seek" requires that at least
// one of the searched bitmap words is not zero, and that the number of words is a power of two.
func (w *wheel) seek(slot, first, words uint32) uint32 {
	at := slot >> 6
	word := w.bitmap[at] >> (slot & 63) << (slot & 63)
	for range words + 1 {
		if word != 0 {
			return at<<6 + uint32(bits.TrailingZeros64(word))
		}
		at = first + (at-first+1)&(words-1)
		word = w.bitmap[at]
	}
	panic("hotel: a wheel that is not empty has no list that is not")
}
