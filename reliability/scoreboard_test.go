package reliability

import (
	"math/rand/v2"
	"testing"

	"gobtl/internal/seq"
)

// A markModel records the marks of a scoreboard without bitmaps.
type markModel struct {
	early, aside map[seq.Num]bool
	oldest, next seq.Num
	shrinks      bool // packets leave the send window, and none enter it
}

// TestScoreboard compares scoreboards with a model, while a send window moves across the largest
// sequence number. In each step, a packet enters the send window, a packet leaves it, or the marks
// of a packet change. The send window grows until it is full, stays full for some time, and shrinks
// until it is empty.
func TestScoreboard(t *testing.T) {
	for _, packets := range []int{8, 64, 256} {
		rng := rand.New(rand.NewPCG(1, uint64(packets)))
		b := newScoreboard(packets)
		first := ^seq.Num(0) - 300
		m := markModel{
			early: map[seq.Num]bool{}, aside: map[seq.Num]bool{}, oldest: first, next: first,
		}
		for range 6000 {
			m.step(b, rng, packets)
			m.compare(t, b)
			if t.Failed() {
				t.Fatalf("window of %d packets", packets)
			}
		}
		if m.oldest >= first {
			t.Errorf("window of %d packets: ended at number %d", packets, m.oldest)
		}
	}
}

// The method "step" changes the send window or the marks of a packet, in the scoreboard and in the
// model.
func (m *markModel) step(b *scoreboard, rng *rand.Rand, packets int) {
	size := m.next.Sub(m.oldest)
	full := size == int32(packets)
	m.shrinks = size > 0 && (m.shrinks || full && rng.IntN(packets) == 0)
	what := rng.IntN(8)
	switch {
	case size == 0 || what < 2 && !m.shrinks && !full:
		m.next++
		return
	case what < 2 && m.shrinks:
		b.unmarkEarly(m.oldest)
		b.takeBack(m.oldest)
		delete(m.early, m.oldest)
		delete(m.aside, m.oldest)
		m.oldest++
		return
	}
	n := m.oldest.Add(rng.Uint32N(uint32(size)))
	switch what {
	case 2, 3:
		b.markEarly(n)
		m.early[n] = true
	case 4:
		b.unmarkEarly(n)
		delete(m.early, n)
	case 5, 6:
		b.setAside(n)
		m.aside[n] = true
	default:
		b.takeBack(n)
		delete(m.aside, n)
	}
}

// The method "compare" reports each difference between a scoreboard and the model.
func (m *markModel) compare(t *testing.T, b *scoreboard) {
	t.Helper()
	open, aside, early := m.next, m.next, uint64(0)
	for n := m.next; ; n-- {
		if gotEarly, gotAside := b.marked(n); n != m.next &&
			(gotEarly != m.early[n] || gotAside != m.aside[n]) {
			t.Errorf("packet %d: marked %t, %t", n, gotEarly, gotAside)
		}
		early <<= 1
		if m.early[n] {
			early |= 1
		}
		if n != m.next && !m.early[n] && !m.aside[n] {
			open = n
		}
		if n != m.next && m.aside[n] {
			aside = n
		}
		if got := b.nextOpen(n, m.next); got != open {
			t.Errorf("first open packet from %d: %d, not %d", n, got, open)
		}
		if got := b.nextAside(n, m.next); got != aside {
			t.Errorf("first packet aside from %d: %d, not %d", n, got, aside)
		}
		within := ^uint64(0)
		if k := m.next.Sub(n); k < 64 {
			within = 1<<k - 1
		}
		if got := b.earlyFrom(n); (got^early)&within != 0 {
			t.Errorf("early packets from %d: %b, not %b", n, got, early)
		}
		if n == m.oldest {
			return
		}
	}
}

// TestScoreboardGrown checks that a larger scoreboard has the marks of the smaller scoreboard, and
// that a scoreboard without marks is replaced by nil.
func TestScoreboardGrown(t *testing.T) {
	const first, count = ^seq.Num(0) - 40, 64
	b := newScoreboard(count)
	if b.grown(2*count, first, first.Add(count)) != nil {
		t.Error("a scoreboard without marks was kept")
	}
	for i := range uint32(count) {
		if i%3 == 0 {
			b.markEarly(first.Add(i))
		}
		if i%5 == 0 {
			b.setAside(first.Add(i))
		}
	}
	b = b.grown(2*count, first, first.Add(count))
	for i := range uint32(2 * count) {
		early, aside := b.marked(first.Add(i))
		if early != (i < count && i%3 == 0) || aside != (i < count && i%5 == 0) {
			t.Errorf("packet %d: marked %t, %t", i, early, aside)
		}
	}
}

// TestScoreboardNil checks that a nil scoreboard has no marks.
func TestScoreboardNil(t *testing.T) {
	var b *scoreboard
	if early, aside := b.marked(3); early || aside {
		t.Error("a nil scoreboard has marks")
	}
	if n := b.nextOpen(3, 9); n != 3 {
		t.Errorf("first open packet %d, not 3", n)
	}
	if n := b.nextAside(3, 9); n != 9 {
		t.Errorf("first packet aside %d, not 9", n)
	}
	if b.earlyFrom(3) != 0 || b.grown(8, 3, 9) != nil {
		t.Error("a nil scoreboard has early packets, or grows")
	}
}
