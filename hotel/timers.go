package hotel

import (
	"errors"
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// The errors of package hotel can be tested with errors.Is.
var (
	// ErrFull means that every room of the hotel is occupied.
	ErrFull = errors.New("hotel: full")
	// ErrConfig means that a field of Config is out of range.
	ErrConfig = errors.New("hotel: invalid configuration")
)

// Bounds and defaults of Config.
const (
	DefaultTickNs = 1 << 16 // 65.536 us: a retransmission time-out need not be more exact
	DefaultSlots  = 4096    // a revolution of 268 ms at the default tick
	MinTickNs     = 1 << 10
	MaxTickNs     = 1 << 40
	MinSlots      = 64
	MaxSlots      = 1 << 20
	MaxRooms      = 1 << 24
)

// Room is the number by which the caller refers to a stored value. The lower 32 bits of a Room are
// the index of a table entry, and the upper 32 bits are a generation, which is different for each
// value in this entry. Generations start at 1, and therefore the zero Room is never valid. The
// generation of a table entry wraps around after 2^32-1 values. After a wrap-around of the
// generation, the Room of a value that was removed 2^32-1 values ago matches a new value in the
// same table entry.
type Room uint64

// Config sets the size and the resolution of a Hotel. If TickNs or Slots is zero, New uses the
// default for this field. The field Rooms has no default value.
type Config struct {
	// Rooms is the largest number of values that the hotel can hold at the same time, 1 to
	// MaxRooms.
	Rooms int
	// TickNs is the resolution of the timers in nanoseconds, a power of two from MinTickNs to
	// MaxTickNs. Evict can return a value up to one tick after the end of the value's time-out.
	TickNs int64
	// Slots is the number of ticks in one revolution of the timing wheel, a power of two from MinSlots
	// to MaxSlots. TickNs x Slots, the time of one revolution, should exceed the usual time-out. A
	// value with a time-out above TickNs x Slots costs additional time, because the Hotel must later
	// move it from the second timing wheel to the first one.
	Slots int
}

func (c Config) withDefaults() Config {
	if c.TickNs == 0 {
		c.TickNs = DefaultTickNs
	}
	if c.Slots == 0 {
		c.Slots = DefaultSlots
	}
	return c
}

// Validate returns an error that names the first field that is out of its range, and wraps
// ErrConfig.
func (c Config) Validate() error {
	c = c.withDefaults()
	switch {
	case c.Rooms < 1 || c.Rooms > MaxRooms:
		return fmt.Errorf("%w: Rooms is %d, must be 1 to %d", ErrConfig, c.Rooms, MaxRooms)
	case c.TickNs < MinTickNs || c.TickNs > MaxTickNs || c.TickNs&(c.TickNs-1) != 0:
		return fmt.Errorf("%w: TickNs is %d, must be a power of two from %d to %d",
			ErrConfig, c.TickNs, MinTickNs, int64(MaxTickNs))
	case c.Slots < MinSlots || c.Slots > MaxSlots || c.Slots&(c.Slots-1) != 0:
		return fmt.Errorf("%w: Slots is %d, must be a power of two from %d to %d",
			ErrConfig, c.Slots, MinSlots, MaxSlots)
	}
	return nil
}

// Hotel holds values of type T, each until Checkout or Evict removes it. New makes a Hotel.
type Hotel[T any] struct {
	wheel  wheel
	guests []T // by index of the room
}

// New returns an empty hotel. The error of New wraps ErrConfig.
func New[T any](cfg Config) (*Hotel[T], error) {
	if err := cfg.Validate(); err != nil {
		return nil, err
	}
	cfg = cfg.withDefaults()
	return &Hotel[T]{wheel: newWheel(cfg), guests: make([]T, cfg.Rooms)}, nil
}

// Checkin stores a value with a time-out of the length "stay", which starts at the time "now".
// After the time-out, Evict returns the value. A time-out is rounded up to the next tick, so that
// Evict returns the value never before the end of the time-out, and at most one tick after it. A
// negative time-out counts as zero. A time-out that would end later than mono.Never never expires.
// If a previous call has passed a time later than "now" to the hotel, Checkin uses this time
// instead of "now". The only error of Checkin is ErrFull.
func (h *Hotel[T]) Checkin(now mono.Time, stay time.Duration, guest T) (Room, error) {
	index := h.wheel.free
	if index == none {
		return 0, ErrFull
	}
	h.guests[index] = guest
	return Room(h.wheel.take(now, stay))<<32 | Room(index), nil
}

// Checkout removes and returns the value with the given room number, which Checkin has returned.
// Checkout returns true if it has removed the value, and false if the value had already been
// removed.
func (h *Hotel[T]) Checkout(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	h.wheel.vacate(uint32(number))
	return h.leave(uint32(number)), true
}

// Knock returns the value with the given room number without removing the value. The result "ok" of
// Knock says whether the hotel still holds the value.
func (h *Hotel[T]) Knock(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	return h.guests[uint32(number)], true
}

// Evict removes one value whose time-out has expired. Evict returns the value and its room number,
// and reports whether a time-out had expired. To remove all values whose time-outs have expired,
// the caller calls Evict until the result "ok" is false. Evict returns values in the order of their
// time-outs, which are rounded up to ticks. Values with the same tick are returned in the order of
// their Checkin. A value with a time-out of zero is due at the time of its Checkin, rounded up to a
// tick. The time between two calls of Evict can be arbitrarily long. If a previous call has passed
// a time later than "now" to the hotel, Evict uses this time instead of "now".
func (h *Hotel[T]) Evict(now mono.Time) (guest T, number Room, ok bool) {
	h.wheel.now = max(h.wheel.now, now)
	if h.wheel.now < h.wheel.next || !h.wheel.turn() {
		return guest, 0, false
	}
	index := h.wheel.lists[h.wheel.nearSlot(h.wheel.cur)].head
	number = Room(h.wheel.rooms[index].generation)<<32 | Room(index)
	h.wheel.vacate(index)
	return h.leave(index), number, true
}

// Deadline returns the time at which the caller must call Evict next, which is the end of the first
// time-out. If the hotel is empty, Deadline returns mono.Never. If the first time-out ends more
// than one revolution (TickNs x Slots) from now, Deadline can return a time that is too early. If
// the first time-out is at most Slots revolutions long, the result of Deadline is too early by less
// than one revolution.
func (h *Hotel[T]) Deadline() mono.Time {
	w := &h.wheel
	if w.near+w.far == 0 {
		return mono.Never
	}
	if w.lists[w.nearSlot(int64(w.next)>>w.tickShift)].head == none {
		w.turn()
	}
	return w.next
}

// Len returns the number of values in the hotel.
func (h *Hotel[T]) Len() int { return h.wheel.near + h.wheel.far }

// Rooms returns the total number of rooms of the hotel, both free and occupied.
func (h *Hotel[T]) Rooms() int { return len(h.guests) }

// The method "leave" returns the value of a table entry that has become free, and clears the entry,
// so that the garbage collector can free the value.
func (h *Hotel[T]) leave(index uint32) T {
	guest := h.guests[index]
	var zero T
	h.guests[index] = zero
	return guest
}
