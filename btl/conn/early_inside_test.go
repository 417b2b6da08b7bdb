package conn

import (
	"math/rand/v2"
	"runtime"
	"testing"
	"unsafe"

	"gobtl/internal/testenv"
)

// loner is a Conn without a network, and what the test knows about it.
type loner struct {
	*Conn
	t    *testing.T
	came int // costOf of all messages that were given to it
}

func newLoner(t *testing.T, window int) *loner {
	t.Helper()
	n := &Node{cfg: Config{WindowBytes: window}.withDefaults(), hosts: map[string]*host{}}
	n.company.window = window
	l := &loner{Conn: &Conn{n: n}, t: t}
	l.window, l.host = uint64(window), n.enterHost("peer")
	l.tell(l.window)
	return l
}

// streamByte is a byte of all streams of these tests.
func streamByte(at uint64) byte { return byte(at ^ at>>8*31 ^ at>>16*7) }

// give gives bytes of the stream to the Conn, and checks its memory.
func (l *loner) give(from, to uint64) {
	l.t.Helper()
	b := make([]byte, to-from)
	for i := range b {
		b[i] = streamByte(from + uint64(i))
	}
	l.came += costOf(len(b))
	if !l.onData(from, b) {
		l.t.Fatalf("the bytes %d to %d are refused", from, to)
	}
	l.check()
}

// check checks that the Conn's memory is in proportion to the bytes that have come, is within the
// window, and is counted.
func (l *loner) check() {
	l.t.Helper()
	ring, copied := len(l.ring), l.copiedBytes()
	if copied != l.apart || l.held != ring+copied || l.n.held != int64(l.held) {
		l.t.Fatalf("%d bytes of the ring buffer and %d of copies count as %d, %d and %d", ring, copied,
			l.apart, l.held, l.n.held)
	}
	sent := int(l.next + l.ahead)
	if ring > ringBytesMin+4*sent+l.came || copied > l.came {
		l.t.Fatalf("%d bytes of the ring buffer and %d of copies for %d bytes", ring, copied, sent)
	}
	if l.held > int(l.window) {
		l.t.Fatalf("%d bytes for a window of %d", l.held, l.window)
	}
	at, ahead := l.next, uint64(0)
	for _, s := range l.early {
		if s.from <= at || s.to <= s.from {
			l.t.Fatalf("the ranges %v", l.early)
		}
		at, ahead = s.to, ahead+s.to-s.from
	}
	if len(l.early) > earlyMax || ahead != l.ahead {
		l.t.Fatalf("%d ranges of %d bytes, which count as %d", len(l.early), ahead, l.ahead)
	}
}

// take reads at most so many bytes, and checks them.
func (l *loner) take(bytes int) {
	l.t.Helper()
	at := l.read
	q := &request{conn: l.Conn, buf: make([]byte, bytes)}
	l.readers = append(l.readers, q)
	l.serveReaders()
	l.readers = nil
	for i, b := range q.buf[:q.n] {
		if b != streamByte(at+uint64(i)) {
			l.t.Fatalf("byte %d is wrong", at+uint64(i))
		}
	}
	if limit, due := l.credit(); due {
		l.tell(limit)
	}
	l.check()
}

// crowded makes the Conn's Node have many busy Conns, until the next epoch.
func (l *loner) crowded() {
	for i := range l.n.company.busy {
		l.n.company.busy[i] = 2 * busyConnsMax
	}
}

// Bytes are read in order in whatever order they come, in windows of all sizes that grow and
// shrink, and their memory is in proportion to what has come.
func TestEarlyOrders(t *testing.T) {
	seed := testenv.Seed(t, 0)
	random := rand.New(rand.NewPCG(seed, 1))
	copied := 0
	for range 100 {
		window := windowBytesMin << random.IntN(7)
		window += random.IntN(window)
		longest := 1 << random.IntN(17)
		shuffle := 1 + random.IntN(inFlightMax)
		l := newLoner(t, window)
		var flying []span
		until := uint64(min(6*window, 1000*longest)) // short messages need not fill large windows
		for sent := uint64(0); l.read < until; {
			for len(flying) < shuffle && sent < l.told {
				to := min(l.told, sent+1+uint64(random.IntN(longest)))
				flying = append(flying, span{from: sent, to: to})
				sent = to
			}
			if last := len(flying) - 1; last >= 0 {
				i := random.IntN(last + 1)
				s := flying[i]
				flying[i] = flying[last]
				flying = flying[:last]
				l.give(s.from, s.to)
				copied = max(copied, l.apart)
			}
			if random.IntN(4) == 0 || len(flying) == 0 {
				l.take(1 + random.IntN(2*window))
			}
			if random.IntN(1000) == 0 {
				l.crowded()
			}
		}
	}
	if copied == 0 {
		t.Error("no message was copied")
	}
}

// The ring buffer and the copies together have no more bytes than the window, also if the window is
// hardly larger than the smallest ring buffer, and after it has shrunk.
func TestCopiesWithinWindow(t *testing.T) {
	l := newLoner(t, 5000)
	l.give(0, 1)
	l.give(4299, 4999)
	l.give(3599, 4299)
	l.give(1, 3599)
	l.take(5000)

	const window = 100_000
	l = newLoner(t, window)
	l.give(window-10_000, window)
	l.window += window
	l.n.grown, l.host.grown = window, window
	l.give(0, 47_500)
	l.give(47_500, 48_000)
	if l.apart == 0 || l.held <= window {
		t.Fatalf("%d bytes of copies, %d of all", l.apart, l.held)
	}
	if !l.shrink() {
		t.Fatal("the window does not shrink")
	}
	l.check()
	l.give(48_000, window-10_000)
	l.take(window)
	if l.read != window {
		t.Errorf("%d bytes were read", l.read)
	}
}

// A copied message counts with at least the memory that the allocator takes for it. The test copies
// the smallest message of each size class of the allocator.
func TestCopyCounts(t *testing.T) {
	const window, most = 1 << 20, 200_000
	for size, class := 1, 0; size < most; size = class + 1 {
		class = cap(append([]byte(nil), make([]byte, size)...))
		l := newLoner(t, window)
		l.give(uint64(window-size), window)
		if l.copiedBytes() == 0 {
			t.Fatalf("the message of %d bytes is not copied", size)
		}
		// An append at most doubles the capacity of incoming.early.
		least := class + int(unsafe.Sizeof(message{})+2*unsafe.Sizeof(span{}))
		if l.apart < least {
			t.Errorf("the copy of %d bytes counts as %d, and takes at least %d", size, l.apart, least)
		}
		l.give(0, uint64(window-size))
		l.take(window)
		if l.apart != 0 || l.read != window {
			t.Errorf("%d bytes are copied after %d bytes were read", l.apart, l.read)
		}
	}
}

// Many tiny messages cause memory in proportion to their number, in all orders: ranges with gaps
// between them, one range that grows at its beginning, at both of its ends, or by closed gaps.
func TestTinySpans(t *testing.T) {
	const window = 256 << 10
	orders := map[string]func(give func(at int)){
		"gaps": func(give func(at int)) {
			for i := range earlyMax {
				give(window - 1 - 1999*i)
			}
		},
		"downwards": func(give func(at int)) {
			for i := range 20_000 {
				give(window - 1 - i)
			}
		},
		"both ends": func(give func(at int)) {
			for i := range 10_000 {
				give(window/2 + i)
				give(window/2 - 1 - i)
			}
		},
		"closed gaps": func(give func(at int)) {
			for i := 0; i < 20_000; i += 2 * earlyMax {
				for j := range earlyMax - 1 {
					give(window - 2 - i - 2*j)
				}
				for j := range earlyMax - 1 {
					give(window - 1 - i - 2*j)
				}
				give(window - i - 2*earlyMax + 1)
				give(window - i - 2*earlyMax)
			}
		},
	}
	for name, order := range orders {
		t.Run(name, func(t *testing.T) {
			l := newLoner(t, window)
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			count := 0
			order(func(at int) {
				count++
				if !l.onData(uint64(at), []byte{streamByte(uint64(at))}) {
					t.Fatalf("byte %d is refused", at)
				}
			})
			runtime.ReadMemStats(&after)
			l.came = count * costOf(1)
			l.check()
			if got := int(after.TotalAlloc - before.TotalAlloc); got > min(5*l.came, 2*window)+ringBytesMin {
				t.Errorf("%d bytes were allocated for %d messages", got, count)
			}
		})
	}
}
