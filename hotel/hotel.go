package hotel

import (
	"errors"
	"fmt"
	"time"

	"gobtl/internal/mono"
)

// Callers test for these errors with errors.Is.
var (
	// ErrFull means that every room is taken.
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

// Room is the number of a room during one stay. The upper 32 bits are the generation of the stay,
// and the lower 32 bits are the room's index. Generations start at 1, and therefore the zero Room
// is never valid. A room's generation wraps after 2^32-1 stays in the room, and an older number
// could then match another guest.
type Room uint64

func makeRoom(generation, index uint32) Room {
	return Room(generation)<<32 | Room(index)
}

// Config sizes a Hotel. Zero in TickNs and Slots means the default. Rooms has no default.
type Config struct {
	// Rooms is the number of guests that the hotel holds at once, 1 to MaxRooms.
	Rooms int
	// TickNs is the resolution in nanoseconds, a power of two from MinTickNs to MaxTickNs. A guest
	// is evicted at most one tick late.
	TickNs int64
	// Slots is the number of ticks in one revolution of the wheel, a power of two from MinSlots to
	// MaxSlots. Choose TickNs x Slots above the usual stay, because a longer stay costs a second
	// move.
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

// Hotel holds guests of type T until each guest checks out or the guest's stay is over. New makes a
// Hotel.
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

// Checkin gives the guest a room for a stay that begins now. When the stay is over, Evict returns
// the guest. A stay is rounded up to the next tick, and the guest is never evicted early and at
// most one tick late. A negative stay counts as zero. A stay that would end after mono.Never has no
// end. If now is before the latest instant that the hotel has seen, the latest instant counts. The
// only error is ErrFull.
func (h *Hotel[T]) Checkin(now mono.Time, stay time.Duration, guest T) (Room, error) {
	index := h.wheel.free
	if index == none {
		return 0, ErrFull
	}
	h.guests[index] = guest
	return makeRoom(h.wheel.take(now, stay), index), nil
}

// Checkout ends the guest's stay and returns the guest. If number does not belong to a stay in
// progress, Checkout returns false and changes nothing.
func (h *Hotel[T]) Checkout(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	h.wheel.vacate(uint32(number))
	return h.leave(uint32(number)), true
}

// Knock returns the guest without ending the guest's stay. If number does not belong to a stay in
// progress, Knock returns false.
func (h *Hotel[T]) Knock(number Room) (guest T, ok bool) {
	if !h.wheel.valid(number) {
		return guest, false
	}
	return h.guests[uint32(number)], true
}

// Evict ends the stay of one guest whose time is over. Evict returns the guest and the number of
// its room, which is no longer valid, or false if no guest is due. The caller repeats Evict until
// the result is false, or continues later. Guests come by tick, and in the order of their check-in
// within a tick. A guest that checks in again with a stay of zero may be returned by the next call
// at the same instant. The argument now of Evict may jump ahead by any amount. If now is before the
// latest instant that the hotel has seen, the latest instant counts.
func (h *Hotel[T]) Evict(now mono.Time) (guest T, number Room, ok bool) {
	if h.wheel.idle(now) || !h.wheel.turn() {
		return guest, 0, false
	}
	index := h.wheel.due()
	number = makeRoom(h.wheel.rooms[index].generation, index)
	h.wheel.vacate(index)
	return h.leave(index), number, true
}

// Deadline returns the instant from which Evict will return a guest, or mono.Never if the hotel is
// empty. The result of Deadline is never too late. The result of Deadline is too early only if
// every guest's stay ends more than a revolution (TickNs x Slots) ahead. Deadline is then too early
// by less than a revolution, or by more if the stay is above Slots revolutions.
func (h *Hotel[T]) Deadline() mono.Time { return h.wheel.deadline() }

// Len is the number of guests.
func (h *Hotel[T]) Len() int { return h.wheel.length() }

// Rooms is the number of rooms.
func (h *Hotel[T]) Rooms() int { return len(h.guests) }

// leave clears the room, so that the hotel no longer holds the memory of the guest.
func (h *Hotel[T]) leave(index uint32) T {
	guest := h.guests[index]
	var zero T
	h.guests[index] = zero
	return guest
}
