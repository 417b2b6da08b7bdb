package hotel

import (
	"errors"
	"fmt"
	"math"
	"testing"
	"time"

	"gobtl/internal/mono"
)

const (
	testTick = MinTickNs
	testTurn = testTick * MinSlots
)

func small(rooms int) Config {
	return Config{Rooms: rooms, TickNs: testTick, Slots: MinSlots}
}

func mustNew(t testing.TB, cfg Config) *Hotel[int] {
	t.Helper()
	h, err := New[int](cfg)
	if err != nil {
		t.Fatal(err)
	}
	return h
}

func mustCheckin(t testing.TB, h *Hotel[int], now mono.Time, stay time.Duration, guest int) Room {
	t.Helper()
	room, err := h.Checkin(now, stay, guest)
	if err != nil {
		t.Fatal(err)
	}
	return room
}

func TestConfig(t *testing.T) {
	t.Parallel()
	cases := []struct {
		cfg  Config
		good bool
	}{
		{Config{Rooms: 1}, true},
		{Config{Rooms: MaxRooms}, true},
		{Config{Rooms: 1, TickNs: MinTickNs, Slots: MinSlots}, true},
		{Config{Rooms: 1, TickNs: MaxTickNs, Slots: MaxSlots}, true},
		{Config{}, false},
		{Config{Rooms: -1}, false},
		{Config{Rooms: MaxRooms + 1}, false},
		{Config{Rooms: 1, TickNs: -1 << 16}, false},
		{Config{Rooms: 1, TickNs: math.MinInt64}, false},
		{Config{Rooms: 1, TickNs: 50_000}, false},
		{Config{Rooms: 1, TickNs: MinTickNs / 2}, false},
		{Config{Rooms: 1, TickNs: MaxTickNs * 2}, false},
		{Config{Rooms: 1, Slots: 100}, false},
		{Config{Rooms: 1, Slots: MinSlots / 2}, false},
		{Config{Rooms: 1, Slots: MaxSlots * 2}, false},
	}
	for _, c := range cases {
		err := c.cfg.Validate()
		if c.good && err != nil || !c.good && !errors.Is(err, ErrConfig) {
			t.Errorf("Validate(%+v) = %v, want good: %v", c.cfg, err, c.good)
		}
		if c.good {
			continue // a hotel of the largest size would need too much memory here
		}
		if h, err := New[int](c.cfg); h != nil || !errors.Is(err, ErrConfig) {
			t.Errorf("New(%+v) = %v, %v", c.cfg, h, err)
		}
	}
}

// TestDue lists when a guest is evicted, and the result of Deadline directly after the guest's
// check-in.
func TestDue(t *testing.T) {
	t.Parallel()
	const tick, turn = testTick, testTurn
	cases := []struct {
		name     string
		now      mono.Time
		stay     time.Duration
		due      mono.Time
		deadline mono.Time
	}{
		{"now, on a tick", 5 * tick, 0, 5 * tick, 5 * tick},
		{"now, within a tick", 5*tick + 1, 0, 6 * tick, 6 * tick},
		{"negative stay", 5 * tick, -time.Hour, 5 * tick, 5 * tick},
		{"ends on a tick", 1, 3*tick - 1, 3 * tick, 3 * tick},
		{"ends after a tick", 1, 3 * tick, 4 * tick, 4 * tick},
		{"before zero", -7 * tick, 2*tick + 1, -4 * tick, -4 * tick},
		{"across zero", -1, 2, tick, tick},
		{"one revolution", 0, turn, turn, turn},
		{"end of the next revolution", 0, 2*turn - tick, 2*turn - tick, 2*turn - tick},
		{"after the next revolution", 0, 2*turn + tick, 2*turn + tick, 2*turn + tick},
		{"a turn of far", 0, turn * MinSlots, turn * MinSlots, turn * MinSlots},
		{"five turns of far", 0, 5 * turn * MinSlots, 5 * turn * MinSlots, 5 * turn * MinSlots},
		{"without end", 0, math.MaxInt64, mono.Never, mono.Never},
		{"without end, from a late start", 1 << 62, math.MaxInt64, mono.Never, mono.Never},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			h := mustNew(t, small(2))
			mustCheckin(t, h, c.now, c.stay, 1)
			if got := h.Deadline(); got != c.deadline {
				t.Errorf("Deadline = %d, want %d", got, c.deadline)
			}
			if last := c.due - 1; last >= c.now {
				if _, _, ok := h.Evict(last); ok {
					t.Fatalf("evicted at %d, due at %d", last, c.due)
				}
			}
			if c.due == mono.Never {
				_, _, ok := h.Evict(mono.Never)
				if ok {
					t.Fatal("evicted although the stay has no end")
				}
				return
			}
			if guest, _, ok := h.Evict(c.due); !ok || guest != 1 {
				t.Fatalf("not evicted at %d", c.due)
			}
			if h.Deadline() != mono.Never {
				t.Errorf("empty, but Deadline = %d", h.Deadline())
			}
		})
	}
}

// TestOrder checks that guests are evicted by tick and then by check-in, although the guests pass
// through both wheels.
func TestOrder(t *testing.T) {
	t.Parallel()
	stays := []struct {
		now  mono.Time
		stay time.Duration
	}{
		0: {0, 3 * testTurn},                             // far
		1: {0, 3*testTurn + 1},                           // far, one tick later
		2: {0, 3*testTurn - 5},                           // far, the tick of 0
		3: {0, 200 * testTurn},                           // far, more than one turn of far
		4: {0, 2 * testTick},                             // near
		5: {0, testTick},                                 // near, earlier
		6: {2*testTurn + 1, testTurn - 1},                // the tick of 0, now near
		7: {2*testTurn + 1, testTurn + testTick - 1},     // the tick of 1
		8: {2*testTurn + 1, 198*testTurn - 1},            // the tick of 3
		9: {2*testTurn + 1, 198*testTurn - 1 - testTurn}, // a revolution earlier
	}
	want := []int{5, 4, 0, 2, 6, 1, 7, 9, 3, 8}
	for _, stepNs := range []mono.Time{testTick / 2, 10 * testTick, testTurn, 1000 * testTurn} {
		t.Run(fmt.Sprintf("step=%d", stepNs), func(t *testing.T) {
			h := mustNew(t, small(len(stays)))
			var got []int
			evictTo := func(now mono.Time) {
				for guest, _, ok := h.Evict(now); ok; guest, _, ok = h.Evict(now) {
					got = append(got, guest)
				}
			}
			for i, s := range stays {
				if s.now > h.wheel.now {
					evictTo(s.now)
				}
				mustCheckin(t, h, s.now, s.stay, i)
			}
			for now := h.wheel.now; h.Len() > 0; now += stepNs {
				evictTo(now)
			}
			if fmt.Sprint(got) != fmt.Sprint(want) {
				t.Errorf("evicted %v, want %v", got, want)
			}
		})
	}
}

func TestFull(t *testing.T) {
	t.Parallel()
	h := mustNew(t, small(2))
	first := mustCheckin(t, h, 0, time.Second, 1)
	mustCheckin(t, h, 0, 2*time.Second, 2)
	if room, err := h.Checkin(0, 0, 3); !errors.Is(err, ErrFull) || room != 0 {
		t.Fatalf("third of two: room %#x, error %v", room, err)
	}
	h.Checkout(first)
	room := mustCheckin(t, h, 0, time.Second, 4)
	if uint32(room) != uint32(first) || room == first {
		t.Fatalf("room %#x after %#x: want the same index and another generation", room, first)
	}
	if guest, _, ok := h.Evict(mono.Never - 1); !ok || guest != 4 {
		t.Fatalf("evicted %d, want 4", guest)
	}
	mustCheckin(t, h, 0, 0, 5)
}

// TestStaleRoom makes every call with numbers that belong to no stay in progress.
func TestStaleRoom(t *testing.T) {
	t.Parallel()
	h := mustNew(t, small(3))
	out := mustCheckin(t, h, 0, time.Second, 1)
	evicted := mustCheckin(t, h, 0, 0, 2)
	staying := mustCheckin(t, h, 0, time.Second, 3)
	h.Checkout(out)
	if _, number, ok := h.Evict(0); !ok || number != evicted {
		t.Fatalf("evicted room %#x, want %#x", number, evicted)
	}
	bad := []Room{
		0, 1, 2, math.MaxUint64, out, evicted,
		out + 1<<32,     // the generation of the room's next guest
		evicted + 1<<32, // the same after an eviction
		staying + 1<<32, staying - 1<<32,
		Room(1)<<32 | Room(3), Room(1)<<32 | Room(math.MaxUint32),
	}
	for _, number := range bad {
		if _, ok := h.Checkout(number); ok {
			t.Errorf("Checkout(%#x) succeeded", number)
		}
		if _, ok := h.Knock(number); ok {
			t.Errorf("Knock(%#x) succeeded", number)
		}
	}
	if guest, ok := h.Knock(staying); !ok || guest != 3 || h.Len() != 1 {
		t.Errorf("Knock(%#x) = %d, %v; Len = %d", staying, guest, ok, h.Len())
	}
}

func TestGenerationWraps(t *testing.T) {
	t.Parallel()
	h := mustNew(t, small(1))
	h.wheel.rooms[0].generation = math.MaxUint32
	last := mustCheckin(t, h, 0, time.Second, 1)
	if last != Room(math.MaxUint32)<<32|Room(0) {
		t.Fatalf("room %#x", last)
	}
	h.Checkout(last)
	next := mustCheckin(t, h, 0, time.Second, 2)
	if next != Room(1)<<32|Room(0) {
		t.Fatalf("after the last generation comes room %#x, want generation 1", next)
	}
	if _, ok := h.Checkout(last); ok {
		t.Fatal("the number of the last generation is still valid")
	}
}

// TestClockGoesBack checks that an instant before the latest seen instant counts as the latest.
func TestClockGoesBack(t *testing.T) {
	t.Parallel()
	h := mustNew(t, small(2))
	h.Evict(100 * testTick)
	mustCheckin(t, h, 0, testTick, 1)
	if got := h.Deadline(); got != 101*testTick {
		t.Errorf("Deadline = %d, want %d", got, 101*testTick)
	}
	h.Evict(101*testTick - 1)
	mustCheckin(t, h, 101*testTick, 0, 2)
	if guest, _, ok := h.Evict(0); !ok || guest != 1 {
		t.Errorf("Evict(0) = %d, %v; want guest 1, who is due", guest, ok)
	}
}

// TestReleasesGuest checks that an empty room holds no pointer to its last guest.
func TestReleasesGuest(t *testing.T) {
	t.Parallel()
	h, err := New[*int](small(2))
	if err != nil {
		t.Fatal(err)
	}
	out, _ := h.Checkin(0, time.Second, new(int))
	_, _ = h.Checkin(0, 0, new(int))
	h.Checkout(out)
	h.Evict(0)
	for i, guest := range h.guests {
		if guest != nil {
			t.Errorf("room %d still holds its guest", i)
		}
	}
}

// TestFarJumpIsBounded lets the clock jump by centuries past guests that stay for years. The work
// must be that of a few looks at the guests instead of a step per tick or revolution.
func TestFarJumpIsBounded(t *testing.T) {
	t.Parallel()
	const year = 365 * 24 * time.Hour
	h := mustNew(t, small(64))
	for i := range 64 {
		mustCheckin(t, h, 0, time.Duration(i+1)*year, i)
	}
	for i := range 64 {
		guest, _, ok := h.Evict(mono.Time(290 * year))
		if !ok || guest != i {
			t.Fatalf("evicted %d %v, want %d", guest, ok, i)
		}
	}
	// With 64 revolutions a turn and a tick of 1 us, one step per turn would mean 10^11 steps, and
	// the test would not reach this line.
}

// TestTurnsBeforeFar checks that a check-in after a long pause finds its tick in near. The usual
// guest is then never moved, even if no guest was evicted for hours.
func TestTurnsBeforeFar(t *testing.T) {
	t.Parallel()
	h := mustNew(t, small(2))
	for now := mono.Time(0); now < 1000*testTurn; now += 7 * testTurn / 3 {
		const stay = testTurn - testTick // the tick is lost by rounding up
		h.Checkout(mustCheckin(t, h, now, stay, 1))
		room := mustCheckin(t, h, now, stay, 2)
		if h.wheel.far != 0 {
			t.Fatalf("a stay below one revolution is far at %d", now)
		}
		h.Checkout(room)
	}
}

func TestNoAllocation(t *testing.T) {
	h := mustNew(t, small(64))
	now := mono.Time(0)
	allocs := testing.AllocsPerRun(1000, func() {
		now += testTick * 7
		for i := range 32 {
			_, _ = h.Checkin(now, time.Duration(i)*testTurn/4, i)
		}
		room, _ := h.Checkin(now, 0, 1)
		h.Knock(room)
		h.Checkout(room)
		_ = h.Deadline()
		for _, _, ok := h.Evict(now); ok; _, _, ok = h.Evict(now) {
			_ = h.Len()
		}
	})
	if allocs != 0 {
		t.Errorf("%v allocations a round, want 0", allocs)
	}
}
