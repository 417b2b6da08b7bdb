package reliability

import (
	"math/bits"
	"testing"
	"time"

	"pgregory.net/rapid"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// wideWindow is the largest window, and the same window as sets of numbers. The Sender and the
// Receiver must agree with the sets.
type wideWindow struct {
	snd   sender
	rcv   Receiver
	rules Rules
	now   mono.Time
	first seq.Num
	sent  int64 // packets sent
	next  int64 // the receiver has all packets before next
	here  map[int64]bool
	known int64 // the value of next that the sender knows
	told  map[int64]bool
}

// sender is a Sender with its Recovery, which uses the segments in turn.
type sender struct {
	Sender
	recovery *Recovery
	free     []Token
}

func newWideWindow(t failer, first seq.Num) *wideWindow {
	w := &wideWindow{
		rules: Adaptive(), now: 1, first: first, here: map[int64]bool{}, told: map[int64]bool{},
	}
	w.rules.WindowPackets, w.rules.Congestion = WindowMax, CongestionFixed
	var err error
	if w.snd.recovery, err = NewRecovery(WindowMax, 1, w.rules); err != nil {
		t.Fatalf("%v", err)
	}
	for i := range Token(WindowMax) {
		w.snd.free = append(w.snd.free, i)
	}
	w.snd.Init(0, first, WindowMax)
	w.snd.recovery.Join(&w.snd.Sender, 0, true)
	w.snd.Grant(1<<16 - 1)
	w.rcv.Init(first, WindowMax)
	w.rcv.Selective = true
	return w
}

func (w *wideWindow) num(n int64) seq.Num { return w.first + seq.Num(n) }

// send sends as many packets as possible, up to count.
func (w *wideWindow) send(t failer, count int64) {
	t.Helper()
	room := min(int64(w.snd.Room()), int64(len(w.snd.free)))
	if most := min(WindowMax-(w.sent-w.known), 1<<16-1); room > most {
		t.Fatalf("room for %d packets, %d in the window", room, most)
	}
	for range min(count, room) {
		last := len(w.snd.free) - 1
		n := w.snd.Admit(w.snd.free[last])
		if n != w.num(w.sent) {
			t.Fatalf("packet %d has the number %d", w.sent, n)
		}
		w.snd.Post(w.now, w.snd.free[last], n, Data, time.Hour)
		w.snd.free = w.snd.free[:last]
		w.sent++
	}
}

// arrive delivers a packet, possibly with a number beyond any window.
func (w *wideWindow) arrive(t failer, n int64) {
	t.Helper()
	want := Accept
	switch {
	case n < w.next:
		want = Below
	case n >= w.next+WindowMax:
		want = Above
	case w.here[n]:
		want = Duplicate
	}
	if got := w.rcv.Check(w.num(n)); got != want {
		t.Fatalf("packet %d (next %d): %d, want %d", n, w.next, got, want)
	}
	if want != Accept {
		return
	}
	w.rcv.Accept(w.now, w.num(n), &w.rules)
	w.here[n] = true
	for w.here[w.next] {
		delete(w.here, w.next)
		w.next++
	}
}

// acknowledge passes an ACK to the sender. The argument most bounds the words of the selective
// part.
func (w *wideWindow) acknowledge(t failer, most int) {
	t.Helper()
	var words [WindowMax / 64]uint64
	n := w.rcv.OutOfOrder(words[:most])
	if n > 0 && words[n-1] == 0 {
		t.Fatalf("the last of %d words is 0", n)
	}
	told := map[int64]bool{}
	for i, word := range words[:n] {
		for ; word != 0; word &= word - 1 {
			told[w.next+1+int64(64*i+bits.TrailingZeros64(word))] = true
		}
	}
	for p := range w.here {
		if told[p] != (p < w.next+1+int64(64*most)) {
			t.Fatalf("packet %d (next %d, %d words): told %v", p, w.next, most, told[p])
		}
		if told[p] {
			w.told[p] = true
		}
		delete(told, p)
	}
	if len(told) > 0 {
		t.Fatalf("told of %d packets that have not come", len(told))
	}
	free := 0
	for p := w.known; p < w.next; p++ {
		if !w.told[p] {
			free++
		}
		delete(w.told, p)
	}
	w.known = w.next
	w.now = w.now.Add(time.Millisecond)
	before := w.snd.InFlight()
	done, verdict := w.snd.OnSack(w.now, w.num(w.next-1), 1<<16-1, &Sack{
		Words: words[:n], Last: w.num(w.next - 1),
	}, nil)
	w.snd.free = append(w.snd.free, done...)
	if verdict == AckBogus || before-w.snd.InFlight() != len(done) || len(done) < free {
		t.Fatalf("verdict %d, %d segments free, at least %d", verdict, len(done), free)
	}
	if got, want := int64(w.snd.InFlight()), w.sent-w.known-int64(len(w.told)); got != want {
		t.Fatalf("%d packets in flight, want %d", got, want)
	}
}

// TestTwinsInTheRing checks packets with the same index in a ring smaller than the window. The
// packets must not be confused, and must keep their places when the ring grows.
func TestTwinsInTheRing(t *testing.T) {
	t.Parallel()
	eachStart(t, func(t *testing.T, first seq.Num) {
		w := newWideWindow(t, first)
		w.send(t, WindowMax)
		for k := int64(1); k < 200; k += 3 {
			for d := int64(0); d < WindowMax-200; d = max(2*d, WindowDefault) {
				w.arrive(t, k)
				w.arrive(t, k+d)
				w.arrive(t, k+d)
			}
			w.acknowledge(t, WindowMax/64)
		}
		for w.next < w.sent {
			w.arrive(t, w.next)
		}
		w.acknowledge(t, WindowMax/64)
	})
}

// TestWidestWindow runs a window of 65536 packets from any first number, and compares the window
// with sets of numbers. Accepted, refused and reported packets must be the same, at both ends of
// the window.
func TestWidestWindow(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		w := newWideWindow(t, drawFirst(t)-seq.Num(rapid.Uint32Range(0, WindowMax).Draw(t, "sooner")))
		within := func(t *rapid.T, most int64) int64 {
			edge := rapid.SampledFrom([]int64{0, 1 << 12, 1 << 15, most}).Draw(t, "edge")
			off := rapid.Int64Range(-65, 65).Draw(t, "off")
			if rapid.Bool().Draw(t, "anywhere") {
				edge, off = 0, rapid.Int64Range(0, max(most, 0)).Draw(t, "place")
			}
			return min(max(edge+off, 0), max(most, 0))
		}
		t.Repeat(map[string]func(*rapid.T){
			"send": func(t *rapid.T) {
				w.send(t, rapid.SampledFrom([]int64{1, 63, 4000, 1 << 15, 1 << 16}).Draw(t, "packets"))
			},
			"arrive": func(t *rapid.T) {
				n := w.next + within(t, w.sent-w.next-1)
				for range rapid.IntRange(1, 200).Draw(t, "run") {
					if n < w.sent {
						w.arrive(t, n)
					}
					n += rapid.Int64Range(1, 2).Draw(t, "step")
				}
			},
			"inOrder": func(t *rapid.T) {
				for range rapid.IntRange(1, 5000).Draw(t, "run") {
					if w.next < w.sent {
						w.arrive(t, w.next)
					}
				}
			},
			"all": func(t *rapid.T) {
				for w.next < w.sent {
					w.arrive(t, w.next)
				}
			},
			"never": func(t *rapid.T) {
				w.arrive(t, w.next+WindowMax+rapid.Int64Range(0, 1<<30).Draw(t, "beyond"))
				w.arrive(t, w.next-1-rapid.Int64Range(0, 1<<30).Draw(t, "below"))
			},
			"acknowledge": func(t *rapid.T) {
				w.acknowledge(t, rapid.SampledFrom([]int{1, 3, 64, WindowMax / 64}).Draw(t, "words"))
			},
			"": func(t *rapid.T) {
				if err := w.rcv.CheckState(); err != nil {
					t.Fatal(err)
				}
				if len(w.here) != w.rcv.Held() || w.num(w.next) != w.rcv.Next() {
					t.Fatalf("%d held, next %d", w.rcv.Held(), w.rcv.Next())
				}
			},
		})
		if err := w.snd.CheckRecovery(); err != nil {
			t.Fatal(err)
		}
	})
}
