package mpi

import (
	"bytes"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"gobtl/btl"
)

// A notice is read as it was written, and nothing else is one.
func FuzzNotice(f *testing.F) {
	whole := notice{noticeVote, true, 515, 7, 1 << 50, 3, 9 << 44, []int{1, RanksMax - 1}}
	good := whole.bytes()
	f.Add(good)
	for _, bad := range [][]byte{nil, good[:noticeHeadBytes-1], good[:len(good)-1], {4: 0, 39: 0}} {
		f.Add(bad)
	}
	var n notice
	if !n.read(good) || n.kind != whole.kind || n.round != 7 || n.context != 1<<50 || n.flags != 3 ||
		n.made != 9<<44 || !n.more || n.part != 515 || len(n.dead) != 2 || n.dead[1] != RanksMax-1 {
		f.Fatalf("%+v is read as %+v", whole, n)
	}
	for at, value := range map[int]byte{0: 5, 1: 2, noticeHeadBytes + 3: 1} {
		bad := bytes.Clone(good)
		if bad[at] = value; n.read(bad) {
			f.Errorf("byte %d is %d, and it is read", at, value)
		}
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		var n notice
		if n.read(b) && !bytes.Equal(n.bytes(), b) {
			t.Errorf("%x is read, and written as %x", b, n.bytes())
		}
	})
}

// All ranks of a job may be on one host.
func TestRoomForRanks(t *testing.T) {
	for _, ranks := range []int{1, 2000, 1 << 17} {
		cfg := btl.Config{}
		if makeRoom(&cfg, ranks); cfg.PeersPerHost < ranks || cfg.PeersMax < ranks {
			t.Errorf("%d ranks: %d peers, %d of a host", ranks, cfg.PeersMax, cfg.PeersPerHost)
		}
	}
	cfg := btl.Config{PeersMax: 9000, PeersPerHost: 7}
	if makeRoom(&cfg, 2); cfg.PeersMax != 9000 || cfg.PeersPerHost != 7 {
		t.Errorf("what the user has set is now %d, %d", cfg.PeersMax, cfg.PeersPerHost)
	}
}

// Parts of a notice, in any order and some of them twice, are whole with the last one that is
// missing, and no sooner.
func TestParts(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const ranks = 1000
		var p reassembly
		count := rapid.IntRange(2, 9).Draw(t, "parts")
		order := rapid.Permutation(slices.Repeat([]int{0, 1, 2, 3, 4, 5, 6, 7, 8}[:count], 2)).
			Draw(t, "order")
		var want []int
		for rank := range 2 * count {
			want = append(want, rank)
		}
		seen, whole := map[int]bool{}, 0
		for _, part := range order {
			if whole > 0 {
				break // What comes then would be of another one.
			}
			n := notice{
				kind: noticeVote, context: 5, round: 3, part: uint16(part), more: part < count-1,
				dead: []int{2 * part, 2*part + 1},
			}
			other := n // of another round
			if other.round++; part == 0 && p.whole(1, &other, ranks) {
				t.Fatal("whole with parts of another one")
			}
			seen[part] = true
			if !p.whole(1, &n, ranks) {
				if len(seen) == count {
					t.Fatal("all parts are there, and it is not whole")
				}
				continue
			}
			whole++
			if len(seen) < count || !slices.Equal(n.dead, want) || n.more || n.part != 0 {
				t.Fatalf("%d parts of %d: %+v", len(seen), count, n)
			}
		}
		if whole != 1 {
			t.Fatalf("it was whole %d times", whole)
		}
	})
	// What a rank sends that is never whole is bounded.
	const ranks = 4
	var p reassembly
	for round := range uint32(1000) {
		for part := range uint16(100) {
			n := notice{kind: noticeVote, round: round, part: part, more: true, dead: []int{1, 2, 3}}
			if p.whole(0, &n, ranks) {
				t.Fatal("whole without an end")
			}
		}
	}
	list, most := p.from[0], 0
	for _, a := range list {
		most = max(most, len(a.dead))
	}
	if len(list) > assembliesMax || most > ranks {
		t.Errorf("%d notices are kept, one with %d ranks", len(list), most)
	}
	if p.drop(0); len(p.from) != 0 {
		t.Errorf("%d senders have incomplete notices", len(p.from))
	}
}

// TestEarlyBytes: the votes of a rank for communicators that nobody has take a bounded memory,
// however many dead ranks they name. The latest vote is kept.
func TestEarlyBytes(t *testing.T) {
	for _, dead := range []int{0, 10, 1000, earlyBytesMax} {
		f := &failures{}
		const votes = 3 * earlyMax
		list := make([]int, dead)
		for round := range uint32(votes) {
			f.putOff(7, &notice{kind: noticeVote, context: 5, round: round, dead: list})
		}
		v := f.early[7]
		held := 0
		for _, n := range v.list {
			held += n.memory()
		}
		if len(v.list) > earlyMax || held != v.bytes || held > earlyBytesMax && len(v.list) > 1 {
			t.Errorf("%d dead ranks: %d votes with %d bytes are kept, %d counted", dead, len(v.list), held,
				v.bytes)
		}
		if last := v.list[len(v.list)-1]; last.round != votes-1 || dead == 0 && len(v.list) != earlyMax {
			t.Errorf("%d dead ranks: of %d votes %d are kept, the last is %d", dead, votes, len(v.list),
				last.round)
		}
		e := &engine{failures: *f}
		c := &Comm{e: e, context: 5}
		e.failures.comms = map[uint64]*Comm{5: c}
		if e.hearEarly(c); len(e.failures.early) != 0 || v.bytes != 0 {
			t.Errorf("%d dead ranks: %d bytes stay", dead, v.bytes)
		}
	}
}
