package hotel

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
)

// model is a simple hotel without regard to speed. The guests are a slice in the order of check-in.
type model struct {
	capacity int
	tickNs   int64
	now      mono.Time
	guests   []modelGuest
}

type modelGuest struct {
	guest int
	room  Room
	due   mono.Time // the end of the stay, rounded up to the tick
}

func (m *model) checkin(now mono.Time, stay time.Duration, guest int) bool {
	if len(m.guests) == m.capacity {
		return false
	}
	m.now = max(m.now, now)
	exact := m.now.Add(max(stay, 0))
	due := exact / mono.Time(m.tickNs) * mono.Time(m.tickNs)
	if due < exact {
		due += mono.Time(m.tickNs)
	}
	if due < exact { // overflow: the next tick begins after the last instant
		due = mono.Never
	}
	m.guests = append(m.guests, modelGuest{guest: guest, due: due})
	return true
}

func (m *model) find(r Room) int {
	return slices.IndexFunc(m.guests, func(g modelGuest) bool { return g.room == r })
}

func (m *model) earliest() int {
	best := -1
	for i, g := range m.guests {
		if best < 0 || g.due < m.guests[best].due {
			best = i
		}
	}
	return best
}

func (m *model) evict(now mono.Time) (modelGuest, bool) {
	m.now = max(m.now, now)
	i := m.earliest()
	if i < 0 || m.guests[i].due == mono.Never || m.guests[i].due > m.now {
		return modelGuest{}, false
	}
	g := m.guests[i]
	m.guests = slices.Delete(m.guests, i, i+1)
	return g, true
}

// pair applies the same calls to a hotel and to the model, and compares every result.
type pair struct {
	hotel *Hotel[int]
	model model
	rooms []Room // all numbers ever returned, for calls with stale numbers
	count int
}

// failer is the common part of *testing.T and *rapid.T.
type failer interface {
	Helper()
	Fatalf(format string, args ...any)
}

func newPair(t failer, cfg Config) *pair {
	t.Helper()
	h, err := New[int](cfg)
	if err != nil {
		t.Fatalf("New(%+v): %v", cfg, err)
	}
	return &pair{
		hotel: h,
		model: model{
			capacity: cfg.Rooms,
			tickNs:   cfg.withDefaults().TickNs,
			now:      math.MinInt64,
		},
	}
}

func (p *pair) checkin(t failer, now mono.Time, stay time.Duration) {
	t.Helper()
	p.count++
	room, err := p.hotel.Checkin(now, stay, p.count)
	if !p.model.checkin(now, stay, p.count) {
		if !errors.Is(err, ErrFull) || room != 0 {
			t.Fatalf("full hotel gave room %#x, error %v", room, err)
		}
		return
	}
	if err != nil || room == 0 || slices.Contains(p.rooms, room) {
		t.Fatalf("Checkin gave room %#x (used before or zero), error %v", room, err)
	}
	p.rooms = append(p.rooms, room)
	p.model.guests[len(p.model.guests)-1].room = room
}

func (p *pair) checkout(t failer, room Room) {
	t.Helper()
	i := p.model.find(room)
	known, knockOK := p.hotel.Knock(room)
	guest, ok := p.hotel.Checkout(room)
	if knockOK != ok || known != guest || ok != (i >= 0) {
		t.Fatalf("room %#x: Knock %d %v, Checkout %d %v, model has it: %v",
			room, known, knockOK, guest, ok, i >= 0)
	}
	if i < 0 {
		return
	}
	if want := p.model.guests[i].guest; guest != want {
		t.Fatalf("room %#x: guest %d, want %d", room, guest, want)
	}
	p.model.guests = slices.Delete(p.model.guests, i, i+1)
}

// evict evicts at most limit guests.
func (p *pair) evict(t failer, now mono.Time, limit int) {
	t.Helper()
	for range limit {
		guest, room, ok := p.hotel.Evict(now)
		want, wantOK := p.model.evict(now)
		if ok != wantOK || guest != want.guest || room != want.room {
			t.Fatalf("Evict(%d): guest %d, room %#x, %v; want guest %d, room %#x, %v (due %d)",
				now, guest, room, ok, want.guest, want.room, wantOK, want.due)
		}
		if !ok {
			return
		}
	}
}

// check compares all readable state, and walks the links.
func (p *pair) check(t failer) {
	t.Helper()
	h := p.hotel
	if h.Len() != len(p.model.guests) || h.Rooms() != p.model.capacity {
		t.Fatalf("Len %d, Rooms %d; want %d, %d",
			h.Len(), h.Rooms(), len(p.model.guests), p.model.capacity)
	}
	if err := h.wheel.audit(); err != nil {
		t.Fatalf("%v", err)
	}
	deadline := h.Deadline()
	i := p.model.earliest()
	if i < 0 {
		if deadline != mono.Never {
			t.Fatalf("empty hotel has deadline %d", deadline)
		}
		return
	}
	due := p.model.guests[i].due
	if deadline > due {
		t.Fatalf("Deadline %d is later than the earliest guest's %d", deadline, due)
	}
	revolution := time.Duration(p.model.tickNs * h.wheel.farSize)
	if deadline < due && due <= p.model.now.Add(revolution) {
		t.Fatalf("now %d: Deadline %d, earliest guest's %d", p.model.now, deadline, due)
	}
}

func TestModel(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		cfg := Config{
			Rooms:  rapid.IntRange(1, 40).Draw(t, "rooms"),
			TickNs: 1 << rapid.IntRange(10, 14).Draw(t, "tickShift"),
			Slots:  1 << rapid.IntRange(6, 8).Draw(t, "slotShift"),
		}
		p := newPair(t, cfg)
		tick := cfg.TickNs
		turn := tick * int64(cfg.Slots)
		now := mono.Time(rapid.Int64Range(-turn*3, turn*3).Draw(t, "start"))
		// The spans end at, before and after every boundary of ticks, revolutions and turns of far.
		span := rapid.Custom(func(t *rapid.T) int64 {
			units := []int64{1, tick, turn / 2, turn, turn * int64(cfg.Slots)}
			unit := rapid.SampledFrom(units).Draw(t, "unit")
			return unit*rapid.Int64Range(0, 5).Draw(t, "n") + rapid.Int64Range(-2, 2).Draw(t, "off")
		})
		t.Repeat(map[string]func(*rapid.T){
			"checkin": func(t *rapid.T) {
				p.checkin(t, now, time.Duration(span.Draw(t, "stay")))
			},
			"checkinOld": func(t *rapid.T) {
				p.checkin(t, now-mono.Time(span.Draw(t, "back")), time.Duration(span.Draw(t, "stay")))
			},
			"checkinForever": func(t *rapid.T) {
				p.checkin(t, now, math.MaxInt64)
			},
			"checkout": func(t *rapid.T) {
				if len(p.model.guests) > 0 {
					p.checkout(t, rapid.SampledFrom(p.model.guests).Draw(t, "guest").room)
				}
			},
			"checkoutAny": func(t *rapid.T) {
				index := rapid.Uint32Range(0, 41).Draw(t, "index")
				p.checkout(t, Room(rapid.Uint32Range(0, 9).Draw(t, "generation"))<<32|Room(index))
			},
			"sleep": func(t *rapid.T) {
				now = max(now, now.Add(time.Duration(span.Draw(t, "sleep"))))
			},
			"evict": func(t *rapid.T) {
				p.evict(t, now, rapid.IntRange(1, 50).Draw(t, "limit"))
			},
			"evictOld": func(t *rapid.T) {
				p.evict(t, now-mono.Time(span.Draw(t, "back")), 1)
			},
			"toDeadline": func(t *rapid.T) {
				if d := p.hotel.Deadline(); d != mono.Never {
					now = max(now, d)
				}
			},
			"": func(t *rapid.T) { p.check(t) },
		})
		// At the end, exactly the guests whose stay has an end must leave.
		p.evict(t, mono.Never, math.MaxInt)
		for _, g := range p.model.guests {
			if g.due != mono.Never {
				t.Fatalf("guest %d, due %d, is still there at the end of time", g.guest, g.due)
			}
		}
	})
}

// FuzzHotel lets the fuzzer choose the calls. Each call is an opcode byte and a signed exponent
// byte. Spans from a nanosecond to centuries are equally likely.
func FuzzHotel(f *testing.F) {
	f.Add([]byte{0, 20, 0, 40, 3, 30, 4, 0})
	f.Add([]byte{0, 63, 0, 10, 1, 0, 3, 50, 4, 0, 0, 20})
	f.Add([]byte{5, 62, 0, 17, 3, 17, 4, 0, 2, 255})
	f.Fuzz(func(t *testing.T, program []byte) {
		p := newPair(t, Config{Rooms: 8, TickNs: 1 << 10, Slots: 64})
		now := mono.Time(0)
		for len(program) >= 2 && len(p.rooms) < 200 {
			op, arg := program[0], program[1]
			program = program[2:]
			span := time.Duration(1)<<(arg&63) + time.Duration(arg>>6)
			switch op % 6 {
			case 0:
				p.checkin(t, now, span)
			case 1:
				if len(p.rooms) > 0 {
					p.checkout(t, p.rooms[int(arg)%len(p.rooms)])
				}
			case 2:
				p.checkout(t, Room(int64(int8(arg)))<<32|Room(arg&15))
			case 3:
				now = now.Add(max(span, 0))
			case 4:
				p.evict(t, now, 1+int(arg&7))
			case 5:
				p.checkin(t, now.Add(-max(span, 0)), span)
			}
			p.check(t)
		}
		p.evict(t, mono.Never, math.MaxInt)
	})
}

// audit walks every list, the bitmap and the stack of free rooms.
func (w *wheel) audit() error {
	near, far := 0, 0
	if w.next < w.instant(w.cur) || int64(w.now)>>w.tickShift < w.cur {
		return fmt.Errorf("next %d, now %d, current tick %d", w.next, w.now, w.cur)
	}
	for slot, l := range w.lists {
		slot := uint32(slot)
		if marked := w.bitmap[slot>>6]>>(slot&63)&1 != 0; marked != (l.head != none) {
			return fmt.Errorf("bitmap and list %d disagree", slot)
		}
		previous := uint32(none)
		for i := l.head; i != none; i = w.rooms[i].next {
			r := w.rooms[i]
			want := w.farSlot(r.tick >> w.slotShift)
			if r.tick < w.limit {
				want = w.nearSlot(r.tick)
				near++
			} else {
				far++
			}
			if r.slot != slot || want != slot || r.prev != previous || r.tick < w.cur {
				return fmt.Errorf("list %d: room %d is wrong: %+v", slot, i, r)
			}
			previous = i
		}
		if l.tail != previous {
			return fmt.Errorf("list %d ends in %d, tail is %d", slot, previous, l.tail)
		}
	}
	free := 0
	for i := w.free; i != none; i = w.rooms[i].next {
		if w.rooms[i].prev != vacant {
			return fmt.Errorf("room %d is free but not vacant", i)
		}
		free++
	}
	if near != w.near || far != w.far || near+far+free != len(w.rooms) {
		return fmt.Errorf("%d near, %d far, %d free; counted %d near, %d far, of %d",
			near, far, free, w.near, w.far, len(w.rooms))
	}
	return nil
}
