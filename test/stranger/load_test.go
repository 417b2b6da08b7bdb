package stranger

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/reliability"
)

// text is a message of a size that tells which one it is.
func text(no, size int) []byte {
	b := make([]byte, size)
	copy(b, fmt.Sprintf("%d;", no))
	for i := 16; i < size; i++ {
		b[i] = byte(i*7 + no)
	}
	return b
}

// drawSize draws small sizes mostly, up to most.
func drawSize(dice *rand.Rand, most int) int {
	switch n := dice.IntN(1000); {
	case n < 800:
		return dice.IntN(200)
	case n < 950:
		return dice.IntN(3000)
	case n < 998:
		return dice.IntN(40000)
	}
	return dice.IntN(most + 1)
}

// TestEchoes has each of many messages come back whole, once, at three MTUs, with losses,
// repetitions and delays of 5 % each in both directions.
func TestEchoes(t *testing.T) {
	for _, x := range []struct {
		name         string
		mtu, command int
		n, most      int
	}{
		{"512", 512, 256, 1500, 60000},
		{"1500", 1500, 768, 6500, 300000},
		{"9000", 9000, 1024, 2000, 4 << 20},
	} {
		t.Run(x.name, func(t *testing.T) {
			r := realSide(t, btl.Config{
				MTUBytes: x.mtu, TinyBytes: x.command,
				Rules: reliability.Rules{WithholdEvery: 128},
			})
			h := stranger(t, options{
				mtu: uint16(x.mtu), command: uint16(x.command),
				features: featSack | featOps | featAsk | featLater,
				faults:   5, parts: 10, withhold: 1, first: 0xFFFFFF00, fragID: 0xFFFFFFF0,
				number: 1<<32 - 100, credit: 128,
			})
			echo(t, r, h, x.n, x.most)
		})
	}
}

func echo(t *testing.T, r *module, h *host, n, most int) {
	t.Helper()
	dice := h.draw()
	want := map[string]int{}
	back := map[string]int{}
	came := 0
	h.do(func() {
		h.handlers[tagEcho] = func(_ *conn, b []byte) {
			back[string(b)]++
			came++
		}
	})
	c := h.to(t, r)
	for no := 0; no < n; {
		h.do(func() {
			for end := min(n, no+50); no < end && len(c.queue) < 200; no++ {
				size := drawSize(dice, most)
				switch no {
				case 0:
					size = 0
				case n / 2:
					size = most
				}
				b := text(no, size)
				want[string(b)]++
				c.send(tagEcho, b)
			}
		})
		time.Sleep(time.Millisecond)
	}
	eventually(t, "all echoes", func() (ok bool) {
		h.do(func() { ok = came >= n || c.state == gone })
		return ok
	})
	h.do(func() {
		if c.err != nil {
			t.Error(c.err)
		}
		for s, k := range want {
			if back[s] != k {
				t.Errorf("%d of %d messages of %d bytes came back", back[s], k, len(s))
			}
		}
		t.Logf("sent %d packets, %d again, in Parts %d, Packs %d, pieces %d; came: Packs %d, pieces "+
			"%d, copies %d", c.next-c.h.opt.first, c.again, c.inSlice, c.packs, c.pieces, c.inPacks,
			c.inPieces, c.copies)
		if c.inSlice == 0 || c.pieces == 0 || c.inPacks == 0 || c.copies == 0 || c.again == 0 ||
			c.h.opt.withhold > 0 && c.tests == 0 {
			t.Error("some of this did not happen")
		}
	})
}

// TestStreams has the real side send of its own, and compares what comes.
func TestStreams(t *testing.T) {
	r := realSide(t, btl.Config{Random: wrapping()})
	h := stranger(t, options{features: featSack, faults: 5, mtu: 1500})
	var mu sync.Mutex
	got := map[string]int{}
	h.do(func() {
		h.handlers[tagKeep] = func(_ *conn, b []byte) {
			mu.Lock()
			defer mu.Unlock()
			got[string(b)]++
		}
	})
	ctx := context.Background()
	ep, err := r.run.Connect(ctx, h.name())
	check(t, err)
	want := map[string]int{}
	for no, size := range []int{0, 1, 100, 1452, 1453, 5000, 100000, 1 << 20, 4 << 20} {
		b := text(no, size)
		want[string(b)]++
		check(t, r.run.SendBuffered(ctx, ep, tagKeep, b))
	}
	for no := range 1000 {
		b := text(no+100, no*3)
		want[string(b)]++
		check(t, r.run.SendBuffered(ctx, ep, tagKeep, b))
	}
	check(t, r.run.Flush(ctx, ep))
	mu.Lock()
	defer mu.Unlock()
	if len(got) != len(want) {
		t.Errorf("%d of %d came", len(got), len(want))
	}
	for s, k := range want {
		if got[s] != k {
			t.Errorf("%d of %d messages of %d bytes came", got[s], k, len(s))
		}
	}
	h.do(func() {
		for _, c := range h.conns {
			t.Logf("came: pieces %d, Packs %d, copies %d", c.inPieces, c.inPacks, c.copies)
			if c.inPieces == 0 {
				t.Error("no pieces came")
			}
		}
	})
}

// wrapping draws numbers whose lower halves are near the wrap.
func wrapping() func() uint64 {
	dice := rand.New(rand.NewPCG(rand.Uint64(), 1))
	return func() uint64 { return dice.Uint64() | 0xFFFFFF00 }
}
