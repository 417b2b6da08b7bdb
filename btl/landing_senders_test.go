package btl

import (
	"bytes"
	"strings"
	"testing"

	"gobtl/btl/internal/landing"
	"gobtl/frag"
)

// twoSenders is a module and two peers that send it large fragments, of chunks of room bytes.
func twoSenders(t *testing.T) (peers [2]*script, got *[]string, room uint32) {
	t.Helper()
	s, got, room := landScript(t)
	other := s.l.newScript(0)
	other.hello.MTUBytes = s.hello.MTUBytes
	other.incarnation++
	other.hello.Incarnation = other.incarnation
	other.connect()
	other.run(20)
	return [2]*script{s, other}, got, room
}

// landTurns has the peers send a fragment each, of which turns tells who sends the next chunk, and
// returns how many chunks landed.
func landTurns(t *testing.T, turns string) uint64 {
	t.Helper()
	peers, got, room := twoSenders(t)
	var sent [2]uint32
	m := peers[0].m
	before := counter(m, CntLanded)
	want := map[string]bool{}
	for i := range peers {
		chunks := strings.Count(turns, string(rune('A'+i)))
		if chunks == 0 {
			continue
		}
		want[strings.Repeat(string(rune('A'+i)), chunks*int(room))] = true
	}
	for _, turn := range turns {
		i := turn - 'A'
		s := peers[i]
		size := uint32(strings.Count(turns, string(turn))) * room
		s.chunk(s.next, 1, size, sent[i]*room, bytes.Repeat([]byte{byte(turn)}, int(room)))
		s.next = s.next.Add(1)
		sent[i]++
		s.run(landing.PausePolls + 2)
		if err := m.Check(); err != nil {
			t.Fatal(err)
		}
	}
	for _, g := range *got {
		if !want[g] {
			t.Errorf("a fragment of %d bytes came that nobody sent", len(g))
		}
		delete(want, g)
	}
	if len(want) != 0 {
		t.Errorf("%d fragments did not come", len(want))
	}
	return counter(m, CntLanded) - before
}

// Several peers that send large fragments at a time have their chunks put into their place, each
// behind its own: who comes after whom is learned within a few turns.
func TestLandingSeveralSenders(t *testing.T) {
	for _, c := range []struct {
		name, turns string
		missed      uint64 // chunks that need not land, at most: the first ones, and those that teach
	}{
		{"one", strings.Repeat("A", 40), 2},
		{"in turns", strings.Repeat("AB", 40), 10},
		{"three each", strings.Repeat("AAABBB", 15), 2 + 30},
		{"one stops in the middle", strings.Repeat("AB", 10) + strings.Repeat("B", 60), 14},
		{"one behind the other", strings.Repeat("A", 30) + strings.Repeat("B", 30), 6},
	} {
		t.Run(c.name, func(t *testing.T) {
			landed := landTurns(t, c.turns)
			if n := uint64(len(c.turns)); landed+c.missed < n {
				t.Errorf("%d of %d chunks landed", landed, n)
			}
		})
	}
}

// What is expected of a peer that sends no more is given up, so that the lone packets of another
// one are received fast again.
func TestLandingGivenUp(t *testing.T) {
	peers, _, room := twoSenders(t)
	m := peers[0].m
	const turns = 10
	chunk := func(s *script, chunks, i uint32) {
		s.chunk(s.next, 1, chunks*room, i*room, make([]byte, room))
		s.next = s.next.Add(1)
		s.run(landing.PausePolls + 2)
	}
	for i := range uint32(turns) {
		chunk(peers[0], 2*turns, i)
		chunk(peers[1], turns, i)
	}
	if x := m.rx.Direct.Plan.Next(true); x == nil || x.Of.ID.Tag != peers[0].conn {
		t.Fatal("not the first peer is expected behind the second one")
	}
	s := peers[1]
	for range landing.MissedMax {
		s.raw(1, encode(frag.Header{Kind: frag.KindFrag, Conn: s.conn, Seq: s.next, Tag: 1},
			make([]byte, room/2)))
		s.next = s.next.Add(1)
		s.run(landing.PausePolls + 2)
	}
	if m.rx.Direct.Plan.Due(&m.all.Port.Data) {
		t.Error("a chunk is expected still")
	}
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}
