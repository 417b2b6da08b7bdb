package hotel

import (
	"errors"
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Callers test for these errors with errors.Is.
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

// Room is the number that Checkin returns for a value. The upper 32 bits of a Room are a
// generation, which changes each time a value is stored in the room, and the lower 32 bits are the
// index of the room in the table. Generations start at 1, and therefore the zero Room is never
// valid. The generation of a room (place for a value) wraps around after 2^32-1 check-ins. After
// that, the number of a value that was removed long ago could refer to another value.
type Room uint64

func makeRoom(generation, index uint32) Room {
	return Room(generation)<<32 | Room(index)
}

// Config sets the size and the resolution of a Hotel. If TickNs or Slots is zero, a default value
// is used. The field Rooms has no default value.
type Config struct {
	// Rooms is the largest number of values that the hotel can hold at the same time, 1 to
	// MaxRooms.
	Rooms int
	// TickNs is the resolution in nanoseconds, a power of two from MinTickNs to MaxTickNs. A value
	// may be evicted up to one tick late.
	TickNs int64
	// Slots is the number of ticks in one revolution of the timing wheel, a power of two from
	// MinSlots to MaxSlots. TickNs x Slots should be longer than the usual time-out, because a
	// longer time-out costs a second list operation.
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

// Validate reports the first field that is out of its range. The error of Validate wraps ErrConfig.
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

// Hotel holds values of type T until each value checks out or is evicted. New makes a Hotel.
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

// Checkin stores a value with the time-out stay, which starts at the time now. After the
// time-out, Evict returns the value. A time-out is rounded up to the next tick, and the value is
// evicted at most one tick late and never early. A negative time-out counts as zero. A time-out
// that would end after mono.Never never ends. If the argument now of Checkin is earlier than the
// latest time passed to any method of the hotel, Checkin uses that latest time. The only error of
// Checkin is ErrFull.
func (h *Hotel[T]) Checkin(now mono.Time, stay time.Duration, guest T) (Room, error) {
	index := h.wheel.free
	if index == none {
		return 0, ErrFull
	}
	h.guests[index] = guest
	return makeRoom(h.wheel.take(now, stay), index), nil
}

// Checkout removes and returns the value with the room number that Checkin returned. If the value
// has already been removed, Checkout returns false and changes nothing.
func (h *Hotel[T]) Checkout(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	h.wheel.vacate(uint32(number))
	return h.leave(uint32(number)), true
}

// Knock returns the value with the given room number without removing the value. If the value has
// already been removed, Knock returns false.
func (h *Hotel[T]) Knock(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	return h.guests[uint32(number)], true
}

// Evict removes one value whose time-out is over. Evict returns the value and the number of
// its room, or false if no time-out is over. The caller repeats Evict until the result is
// false, or calls Evict at a later time. Evict returns values in the order of their ticks,
// and the values of one tick in the order of their check-in. A value whose time-out is zero may be
// returned by the next Evict, even if the argument now is the same as in Checkin. The argument now
// of Evict may be any amount later than in the previous call. If it is earlier than the latest time
// passed to any method of the hotel, Evict uses that latest time.
func (h *Hotel[T]) Evict(now mono.Time) (guest T, number Room, ok bool) {
	if h.wheel.idle(now) || !h.wheel.turn() {
		return guest, 0, false
	}
	index := h.wheel.due()
	number = makeRoom(h.wheel.rooms[index].generation, index)
	h.wheel.vacate(index)
	return h.leave(index), number, true
}

// Deadline returns the earliest time at which Evict can return a value, or mono.Never if the
// hotel is empty. If every time-out ends more than one revolution (TickNs x Slots) from now,
// Deadline may return a time before the first time-out. The result of Deadline is too early by less
// than a revolution, unless the time-out is longer than Slots revolutions.
func (h *Hotel[T]) Deadline() mono.Time { return h.wheel.deadline() }

// Len is the number of values in the hotel.
func (h *Hotel[T]) Len() int { return h.wheel.length() }

// Rooms is the total number of rooms of the hotel.
func (h *Hotel[T]) Rooms() int { return len(h.guests) }

// The method leave removes the value from its room (an element of the table), so that the garbage
// collector can free the value.
func (h *Hotel[T]) leave(index uint32) T {
	guest := h.guests[index]
	var zero T
	h.guests[index] = zero
	return guest
}
