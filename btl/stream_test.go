package btl

import (
	"bytes"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/fabric/mem"
	"gobtl/frag"
	"gobtl/internal/testenv"
)

// streamLab is two modules of which the second one notes what it gets by its first two bytes.
func streamLab(t *testing.T, net mem.Config, sizes func(i int) int) (l *lab, got map[int]int) {
	t.Helper()
	cfg := smallConfig()
	l = newLab(t, net, 2, cfg)
	got = map[int]int{}
	for tag := Tag(1); tag <= 2; tag++ {
		err := l.mods[1].Handle(tag, func(_ *Endpoint, tag Tag, data []byte) {
			i := int(data[0]) | int(data[1])<<8
			if !bytes.Equal(data, streamMessage(i, sizes(i))) {
				t.Errorf("message %d has %d bytes, or others than were sent", i, len(data))
			}
			got[i]++
		})
		if err != nil {
			t.Fatal(err)
		}
	}
	return l, got
}

func streamMessage(i, sizeBytes int) []byte {
	b := bytes.Repeat([]byte{byte(i * 7)}, sizeBytes)
	b[0], b[1] = byte(i), byte(i>>8)
	return b
}

func sendStream(t *testing.T, ep *Endpoint, i, sizeBytes int, tag Tag) *error {
	t.Helper()
	f, err := ep.Prepare(tag, streamMessage(i, sizeBytes))
	if err != nil {
		t.Fatal(err)
	}
	ended := new(error)
	*ended = errPending
	f.Signal, f.OnDone = true, func(_ *Fragment, err error) { *ended = err }
	if _, err := ep.Send(ep.Now(), f); err != nil {
		t.Fatal(err)
	}
	return ended
}

// A stream of messages of any size, all queued, fills equal datagrams, but the last.
func TestStreamFillsPackets(t *testing.T) {
	for _, size := range []int{1441, 1500, 2000, 3000, 4096, 5000, 8192} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			const count = 40
			l, got := streamLab(t, mem.Config{}, func(int) int { return size })
			ep := l.connect(0, 1)
			l.settle(time.Second)
			lengths := map[int]int{}
			l.net.SetFilter(func(_, _, pkt []byte) mem.Verdict {
				if k := kindOf(pkt); k.HasSeq() {
					lengths[len(pkt)]++
				}
				return mem.Deliver
			})
			var ends []*error
			for i := range count {
				ends = append(ends, sendStream(t, ep, i, size, 1))
			}
			l.settle(time.Second)
			for i, e := range ends {
				if *e != nil || got[i] != 1 {
					t.Errorf("message %d: %v, delivered %d times", i, *e, got[i])
				}
			}
			alike, all := 0, 0
			for _, n := range lengths {
				all += n
				alike = max(alike, n)
			}
			const heads = 2 * (frag.RecordHeaderBytes + frag.PieceExtraBytes)
			if most := count*(size+heads)/(ep.MTUBytes()-48) + 5; all > most || alike < all*8/10 {
				t.Errorf("%d packets, %d of them alike, want at most %d: %v", all, alike, most, lengths)
			}
			l.wantIdle(0)
			l.wantIdle(1)
		})
	}
}

// Mixed sizes, loss, duplicates and a tag that is refused: what is accepted arrives once and whole,
// what is refused fails, and nothing is left.
func TestStreamMixedSizes(t *testing.T) {
	seed := testenv.Seed(t, 11)
	rng := newRand(seed)
	sizes := make([]int, 400)
	for i := range sizes {
		sizes[i] = 2 + rng.IntN([]int{100, 1500, 4000, 9000}[rng.IntN(4)])
	}
	l, got := streamLab(t, mem.Config{}, func(i int) int { return sizes[i] })
	ep := l.connect(0, 1)
	l.settle(time.Second)
	l.chaos(chaos{loss: 0.05, dup: 0.03, hold: 0.05}, seed)
	ends := make([]*error, len(sizes))
	refused := map[int]bool{}
	for i, size := range sizes {
		tag := Tag(1 + rng.IntN(2))
		if refused[i] = rng.IntN(8) == 0; refused[i] {
			tag = 9
		}
		ends[i] = sendStream(t, ep, i, size, tag)
		for rng.IntN(6) == 0 {
			l.step(20 * time.Microsecond)
			l.chaosStep()
		}
	}
	for range 2000 {
		l.step(200 * time.Microsecond)
		l.chaosStep()
	}
	l.calm()
	l.settle(10 * time.Second)
	for i, e := range ends {
		if refused[i] && (!errors.Is(*e, ErrNoHandler) || got[i] != 0) ||
			!refused[i] && (*e != nil || got[i] != 1) {
			t.Errorf("message %d of %d bytes, refused %v: %v, delivered %d times", i, sizes[i], refused[i],
				*e, got[i])
		}
	}
	if counter(l.mods[1], CntRecvPieces) == 0 {
		t.Error("no pieces came")
	}
	l.wantIdle(0)
	l.wantIdle(1)
}

// TestStreamApart checks that large fragments share packets up to an MTU of 9000, and unless
// PackBytes is 1.
func TestStreamApart(t *testing.T) {
	for _, c := range []struct {
		mtu, pack int
		want      bool
	}{
		{1472, 0, true}, {1472, 1, false}, {9000, 0, true}, {9001, 0, false},
	} {
		cfg := smallConfig()
		cfg.MTUBytes, cfg.PackBytes = c.mtu, c.pack
		l := newLab(t, mem.Config{MTUBytes: 16 << 10}, 2, cfg)
		ep := l.connect(0, 1)
		l.settle(time.Second)
		for i := range 4 {
			sendStream(t, ep, i, c.mtu+500, 1)
		}
		l.settle(time.Second)
		if got := counter(l.mods[0], CntSentPieces); (got > 0) != c.want {
			t.Errorf("%+v: %d pieces were sent", c, got)
		}
	}
}

// The end of a fragment that is too long for its handler shares a packet with the next one: nothing
// of it stays.
func TestStreamUnwanted(t *testing.T) {
	l, got := streamLab(t, mem.Config{}, func(int) int { return 2000 })
	l.mods[1].rx.Limit(2, 1999)
	ep := l.connect(0, 1)
	l.settle(time.Second)
	for i := range 20 {
		refused, taken := sendStream(t, ep, 2*i, 2000, 2), sendStream(t, ep, 2*i+1, 2000, 1)
		l.settle(time.Second)
		if !errors.Is(*refused, ErrUnwanted) || *taken != nil || got[2*i] != 0 || got[2*i+1] != 1 {
			t.Fatalf("%v, delivered %d times; %v, %d times", *refused, got[2*i], *taken, got[2*i+1])
		}
	}
	if pieces := counter(l.mods[1], CntRecvPieces); pieces < 20 {
		t.Errorf("%d pieces were taken", pieces)
	}
	l.wantIdle(0)
	l.wantIdle(1)
}

// Of a fragment whose beginning the peer has refused nothing more is sent, and it fails, whether or
// not the peer takes what was under way of it meanwhile.
func TestStreamBeginningRefused(t *testing.T) {
	for _, credit := range []uint16{2, 4096} { // more of it waits; all of it is in flight
		cfg := smallConfig()
		_, s := newStranger(t, cfg)
		s.credit, s.hello.Credit = credit, credit
		ep := s.connect()
		s.run(20)
		room := int(s.room())
		ends := []*error{
			sendStream(t, ep, 1, room+500, 1), sendStream(t, ep, 2, 3*room, 9),
			sendStream(t, ep, 3, room+500, 1),
		}
		before := s.run(20)
		packs := kinds(before, frag.KindPack)
		if len(packs) == 0 || !frag.IsPiece(packs[0].payload) {
			t.Fatalf("credit %d: no pack with pieces among %d packets", credit, len(before))
		}
		n := packs[0].hdr.Seq
		s.ack(n - 1)
		nack := frag.Header{Kind: frag.KindNack, Conn: s.conn, Seq: n, Tag: frag.NackRecord}
		s.raw(0, encode(nack, []byte{9}))
		again := s.run(20)
		if credit < 4096 {
			if len(kinds(before, frag.KindChunk)) != 1 {
				t.Fatalf("%d chunks before", len(kinds(before, frag.KindChunk)))
			}
			for _, p := range kinds(again, frag.KindChunk) {
				if p.hdr.Tag == 9 {
					t.Errorf("credit %d: chunk at %d of the refused one", credit, p.hdr.OffsetBytes)
				}
			}
		}
		for range 4 {
			_, next := ep.c.Snd.Window()
			s.ack(next - 1)
			s.run(20)
		}
		if *ends[0] != nil || !errors.Is(*ends[1], ErrNoHandler) || *ends[2] != nil {
			t.Errorf("credit %d: %v, %v, %v, want nil, %v, nil", credit, *ends[0], *ends[1], *ends[2],
				ErrNoHandler)
		}
		if err := s.m.Check(); err != nil {
			t.Error(err)
		}
	}
}
