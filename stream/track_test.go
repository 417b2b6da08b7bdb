package stream

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// fates is what a simple model of the counts says: it keeps everything that ever came.
type fates struct {
	first, sent uint64
	came        map[uint64]map[uint32]bool
	spoilt      map[uint64]bool
	duplicates  uint64
}

// grams is how many datagrams came, each counted once.
func (f *fates) grams() (n uint64) {
	for _, message := range f.came {
		n += uint64(len(message))
	}
	return n
}

func (f *fates) whole(n uint64, datagrams uint32) bool { return len(f.came[n]) == int(datagrams) }

// TestTracker compares the tracker with a model that keeps everything, over gaps, copies, disorder,
// and the wrap of 2^32.
func TestTracker(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		first := rapid.SampledFrom([]uint64{0, 1<<32 - 50, 1<<63 - 1<<20}).Draw(t, "first")
		datagrams := rapid.SampledFrom([]uint32{1, 2, 65}).Draw(t, "datagrams")
		tr := newTracker(first, datagrams, 16)
		m := fates{first: first, came: map[uint64]map[uint32]bool{}, spoilt: map[uint64]bool{}}
		next := first
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			switch rapid.IntRange(0, 9).Draw(t, "kind") {
			case 0:
				next += rapid.Uint64Range(0, 300).Draw(t, "gap")
			case 1:
				tr.extend(next)
				m.sent = max(m.sent, next-first)
			default:
				back := rapid.Uint64Range(0, 40).Draw(t, "back")
				n := next - min(back, next-first)
				d := rapid.Uint32Range(0, datagrams-1).Draw(t, "datagram")
				spoils := rapid.IntRange(0, 9).Draw(t, "spoils") == 0
				next = max(next, n+1)
				m.sent = max(m.sent, n+1-first)
				if m.came[n] == nil {
					m.came[n] = map[uint32]bool{}
				}
				got := tr.arrive(n, d)
				if m.came[n][d] {
					m.duplicates++
					if got != arrivalDuplicate {
						t.Fatalf("%d/%d came again: %d", n, d, got)
					}
					continue
				}
				m.came[n][d] = true
				if got != arrivalNew {
					t.Fatalf("%d/%d is new: %d", n, d, got)
				}
				why := spoiltNot
				if spoils {
					why = spoiltLate
					m.spoilt[n] = true
				}
				if tr.settle(n, why) != (m.whole(n, datagrams) && !m.spoilt[n]) {
					t.Fatalf("%d/%d: settle", n, d)
				}
			}
		}
		var received, late uint64
		for n := range m.came {
			switch {
			case !m.whole(n, datagrams):
			case m.spoilt[n]:
				late++
			default:
				received++
			}
		}
		if tr.sent() != m.sent || tr.received != received || tr.late != late ||
			tr.duplicates != m.duplicates || tr.missing() != m.sent-received-late ||
			tr.missingDatagrams() != m.sent*uint64(datagrams)-m.grams() {
			t.Fatalf("%+v\nmodel %+v received %d late %d", tr, m, received, late)
		}
	})
}

// TestTrackerJumps: a gap of any length costs no more than the history, and what is behind it can
// not be told from what is stale.
func TestTrackerJumps(t *testing.T) {
	tr := newTracker(5, 1, 8)
	for _, n := range []uint64{5, 6, 1 << 32, 1<<32 + 1, 1 << 62} {
		if tr.arrive(n, 0) != arrivalNew || !tr.settle(n, spoiltNot) {
			t.Fatalf("%d", n)
		}
	}
	if tr.received != 5 || tr.sent() != 1<<62-4 || tr.missing() != 1<<62-9 {
		t.Errorf("%+v", tr)
	}
	if tr.arrive(7, 0) != arrivalStale || tr.arrive(4, 0) != arrivalForeign || tr.arrive(1<<62, 0) !=
		arrivalDuplicate {
		t.Errorf("stale, foreign, duplicate: %+v", tr)
	}
	tr.end(1<<62 + 10)
	if tr.missing() != 1<<62 || tr.arrive(1<<62+10, 0) != arrivalForeign {
		t.Errorf("end: %+v", tr)
	}
}

// TestAssembler throws the datagrams of a stream in random order, with losses and copies, at
// assemblers of many shapes, whose reader is now fast, now slow, and checks every byte and count.
func TestAssembler(t *testing.T) {
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 1))
	for round := range 300 {
		a := assembly{
			t: t, rng: rng, g: Geometry{1 + rng.IntN(50), 1 + rng.IntN(6), 1 + rng.IntN(9)},
			total: uint64(1 + rng.IntN(400)), first: rng.Uint64N(1 << 40),
		}
		a.name = fmt.Sprintf("round %d: %+v total %d", round, a.g, a.total)
		a.run()
		if t.Failed() {
			return
		}
	}
}

type assembly struct {
	t            *testing.T
	rng          *rand.Rand
	name         string
	g            Geometry
	first, total uint64
	asm          *assembler
	regions      []Region
	gaps         [][2]uint64
	lost         int
	copies       uint64
	held         []Region // with the reader
}

func (a *assembly) run() {
	ring, err := NewRing(a.g, nil)
	if err != nil {
		a.t.Fatal(err)
	}
	perMsg := 1 + a.rng.IntN(a.g.MessageBytes)
	n := uint32((a.g.MessageBytes + perMsg - 1) / perMsg)
	a.asm = newAssembler(ring, a.first, n, perMsg)
	seen := make([]bool, a.total)
	a.asm.done = func(r Region) {
		a.check(r, seen)
		a.held = append(a.held, r)
	}
	a.asm.gap = func(first, last uint64) { a.gaps = append(a.gaps, [2]uint64{first, last}) }
	loss, slow := a.rng.Float64()*.2, a.rng.IntN(3) == 0
	block := a.rng.IntN(2) == 0
	var line []header
	for i := range a.total {
		for d := range n {
			h := header{ordinal: a.first + i, datagram: d}
			if a.rng.Float64() < loss {
				a.lost++
				continue
			}
			line = append(line, h)
			if a.rng.IntN(20) == 0 {
				line = append(line, h)
				a.copies++
			}
		}
	}
	for i := range line { // disorder
		j := min(i+a.rng.IntN(5), len(line)-1)
		line[i], line[j] = line[j], line[i]
	}
	for i := 0; i < len(line); {
		if !slow || a.rng.IntN(4) == 0 {
			a.read()
		}
		h := line[i]
		var msg [64]byte
		fillMessage(msg[:a.g.MessageBytes], h.ordinal)
		payload := msg[int(h.datagram)*perMsg:][:a.asm.payloadBytes(h.datagram)]
		landed := false
		if mem := a.asm.landing(); mem != nil && len(mem) >= len(payload) && a.rng.IntN(2) == 0 {
			copy(mem, payload) // as the fabric does, right or wrong
			landed = a.asm.isPlace(h, mem[:len(payload)])
		}
		if a.asm.take(h.ordinal, h.datagram, payload, block, landed) == resultBlocked {
			if len(a.held) == 0 {
				a.t.Fatalf("%s: blocked, and the reader has nothing", a.name)
			}
			a.read()
			continue
		}
		i++
	}
	a.asm.end(a.first + a.total)
	a.asm.finish()
	a.verdict(seen, n)
}

// read gives everything back.
func (a *assembly) read() {
	for _, r := range a.held {
		a.asm.ring.SetPopulated(r.Index, false)
	}
	a.held = nil
}

// check compares a region's bytes, and that regions come in order.
func (a *assembly) check(r Region, seen []bool) {
	want := make([]byte, a.g.MessageBytes)
	if k := len(a.regions); k > 0 && a.regions[k-1].First >= r.First {
		a.t.Errorf("%s: region of %d behind that of %d", a.name, r.First, a.regions[k-1].First)
	}
	a.regions = append(a.regions, r)
	there := 0
	for k := range r.Messages {
		ordinal, ok := a.asm.ring.Transferred(r.Index, k)
		clear(want)
		if ok {
			there++
			seen[ordinal-a.first] = true
			fillMessage(want, ordinal)
		}
		if !bytes.Equal(r.Bytes[k*a.g.MessageBytes:][:a.g.MessageBytes], want) {
			a.t.Errorf("%s: message %d (there: %v) is wrong", a.name, ordinal-a.first, ok)
		}
	}
	if there != r.Received {
		a.t.Errorf("%s: %d of %d messages marked", a.name, there, r.Received)
	}
}

func (a *assembly) verdict(seen []bool, datagrams uint32) {
	tr := &a.asm.track
	var received uint64
	var gaps [][2]uint64
	for i, ok := range seen {
		n := a.first + uint64(i)
		switch {
		case ok:
			received++
		case len(gaps) > 0 && gaps[len(gaps)-1][1] == n-1:
			gaps[len(gaps)-1][1] = n
		default:
			gaps = append(gaps, [2]uint64{n, n})
		}
	}
	merged := a.gaps[:0:0]
	for _, g := range a.gaps { // neighbours may be told apart
		if k := len(merged); k > 0 && merged[k-1][1]+1 == g[0] {
			merged[k-1][1] = g[1]
			continue
		}
		merged = append(merged, g)
	}
	if !slices.Equal(merged, gaps) {
		a.t.Errorf("%s: gaps %v, want %v", a.name, merged, gaps)
	}
	if tr.received != received || tr.duplicates != a.copies || tr.sent() != a.total ||
		tr.received+tr.late+tr.overrun+tr.missing() != a.total {
		a.t.Errorf("%s: seen %d copies %d: %+v", a.name, received, a.copies, tr)
	}
	if datagrams == 1 && tr.missing() != uint64(a.lost) {
		a.t.Errorf("%s: missing %d, lost %d", a.name, tr.missing(), a.lost)
	}
}

// TestFinishLeavesWhatDidNotCome: of regions that were granted, and of which nothing came, the
// memory stays as it is; of the one in progress what is missing is zeroed.
func TestFinishLeavesWhatDidNotCome(t *testing.T) {
	ring, err := NewRing(Geometry{8, 4, 2}, nil)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 4 {
		for k := range 2 {
			copy(ring.Message(i, k), "kept all")
		}
	}
	a := newAssembler(ring, 0, 1, 8)
	var handed, gaps int
	a.done = func(Region) { handed++ }
	a.gap = func(_, _ uint64) { gaps++ }
	a.grant()
	if !a.fill(3) {
		t.Fatal("three messages are no news")
	}
	a.finish()
	if handed != 2 {
		t.Errorf("%d regions handed over, want the whole one and the one in progress", handed)
	}
	for i := range 4 {
		for k := range 2 {
			want := "kept all"
			if i == 1 && k == 1 {
				want = strings.Repeat("\x00", 8)
			}
			if got := string(ring.Message(i, k)); got != want {
				t.Errorf("message %d of region %d is %q, want %q", k, i, got, want)
			}
		}
	}
}
