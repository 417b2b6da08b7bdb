//go:build linux

package shm

import (
	"bytes"
	"encoding/binary"
	"math/rand/v2"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"gobtl/internal/testenv"
)

// newPair makes the sender's and the receiver's view of a ring in ordinary memory.
func newPair(sizeBytes int) (*sendRing, *recvRing) {
	words := make([]uint64, (headerBytes+sizeBytes)/8)
	mem := unsafe.Slice((*byte)(unsafe.Pointer(&words[0])), headerBytes+sizeBytes)
	s := &sendRing{ring: newRing(mem)}
	s.format()
	return s, &recvRing{ring: newRing(mem)}
}

// payload is a datagram that differs from all other datagrams, and has words like those of records.
func payload(rng *rand.Rand, i uint64) []byte {
	size := rng.IntN(200)
	if rng.IntN(10) == 0 {
		size = rng.IntN(mtuBytes + 1)
	}
	b := make([]byte, size)
	for at := range len(b) / 8 {
		binary.LittleEndian.PutUint64(b[8*at:], i*31+uint64(at)%7)
	}
	return b
}

// TestRing makes random puts, publishes and reads, and checks that every datagram arrives once,
// complete and in order.
func TestRing(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	s, q := newPair(ringBytesMin)
	var unread [][]byte
	visible, full := 0, 0
	for i := range uint64(200_000) {
		eager := i/1000%2 == 0 // sender and receiver alternate in being faster
		switch rng.IntN(5) {
		case 0, 1:
			b := payload(rng, i)
			cut := rng.IntN(len(b) + 1)
			if s.put(b[:cut], b[cut:]) {
				unread = append(unread, b)
			} else {
				full++
			}
		case 2:
			s.publish()
		default:
			if !eager || rng.IntN(4) == 0 {
				take(t, q, &unread, &visible, rng.IntN(8))
			}
		}
		if !s.open {
			visible = len(unread)
		}
		if used := s.tail - q.at; used > s.size-ringAlign {
			t.Fatalf("%d bytes of %d are in use: the end has no place", used, s.size)
		}
	}
	if full == 0 {
		t.Error("the ring was never full")
	}
	if s.tail < 4*s.size {
		t.Errorf("only %d bytes went through: it did not wrap", s.tail)
	}
}

// take reads at most n datagrams. Published datagrams must be visible.
func take(t *testing.T, q *recvRing, unread *[][]byte, visible *int, n int) {
	t.Helper()
	for range n {
		pkt, err := q.next()
		if err != nil {
			t.Fatal(err)
		}
		if pkt == nil {
			if *visible > 0 {
				t.Fatalf("%d published datagrams are not there", *visible)
			}
			return
		}
		if !bytes.Equal(pkt, (*unread)[0]) {
			t.Fatalf("%d bytes, want %d, or altered", len(pkt), len((*unread)[0]))
		}
		q.advance(len(pkt))
		*unread = (*unread)[1:]
		*visible = max(0, *visible-1)
		q.giveBack()
	}
}

// TestRingAlwaysRoom checks that a receiver that has read all datagrams has published enough room
// for any datagram, at any position of the ring. Sender and receiver would otherwise wait for each
// other.
func TestRingAlwaysRoom(t *testing.T) {
	s, q := newPair(ringBytesMin)
	small := make([]byte, 1)
	for range 2 * ringBytesMin / ringAlign {
		for _, b := range [][]byte{small, make([]byte, mtuBytes)} {
			if !s.put(b, nil) {
				t.Fatalf("no room for %d bytes at %d, taken %d, told %d", len(b), s.tail, q.at, q.told)
			}
			s.publish()
			pkt, err := q.next()
			if err != nil || len(pkt) != len(b) {
				t.Fatalf("%d bytes, %v, want %d", len(pkt), err, len(b))
			}
			q.advance(len(pkt))
			q.giveBack()
		}
	}
}

// TestRingHostile writes junk over a ring while the ring is read. Every result must lie inside the
// ring.
func TestRingHostile(t *testing.T) {
	rng := rand.New(rand.NewPCG(testenv.Seed(t, 0), 0))
	refused, taken := 0, 0
	for range 2000 {
		s, q := newPair(ringBytesMin)
		for i := headerBytes; i < headerBytes+4096; i += 8 {
			word := rng.Uint64N(200)
			if rng.IntN(4) == 0 {
				word = []uint64{wordSkip, mtuBytes + 1, mtuBytes + 2, rng.Uint64(), 1 << 63}[rng.IntN(5)]
			}
			binary.NativeEndian.PutUint64(s.mem[i:], word)
		}
		q.at = uint64(rng.IntN(4096)) &^ (ringAlign - 1)
		if rng.IntN(2) == 0 {
			q.at += q.size - 4096 // before the end of the memory
			copy(s.mem[len(s.mem)-4096:], s.mem[headerBytes:headerBytes+4096])
		}
		for range 100 {
			pkt, err := q.next()
			if err != nil {
				refused++
				break
			}
			if pkt == nil {
				break
			}
			taken++
			at := uintptr(unsafe.Pointer(unsafe.SliceData(pkt))) - uintptr(unsafe.Pointer(&q.mem[0]))
			n := uintptr(len(pkt))
			if n > mtuBytes || n > 0 && (at < headerBytes || at+n > uintptr(len(q.mem))) {
				t.Fatalf("%d bytes at %d of %d", len(pkt), at, len(q.mem))
			}
			q.advance(len(pkt))
		}
	}
	if refused == 0 || taken == 0 {
		t.Errorf("%d refused, %d taken: not both were tried", refused, taken)
	}
	// A receiver that publishes a wrong head harms only itself.
	s, q := newPair(ringBytesMin)
	for range 10_000 {
		binary.NativeEndian.PutUint64(s.mem[offHead:], rng.Uint64())
		s.put(make([]byte, rng.IntN(mtuBytes)), nil)
		s.publish()
		if s.tail-s.taken > s.size {
			t.Fatalf("%d bytes in a ring of %d", s.tail-s.taken, s.size)
		}
	}
	_ = q
}

// TestRingTouched checks that the pages of a ring are not populated one by one while a message
// waits.
func TestRingTouched(t *testing.T) {
	mem, memfd, err := makeRing(ringBytesMax)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(memfd)
	defer func() { _ = unix.Munmap(mem) }()
	if err := unix.Madvise(mem[:headerBytes], unix.MADV_POPULATE_WRITE); err != nil {
		t.Skipf("this kernel does not make pages when it is asked to: %v", err)
	}
	there := func() (pages int) {
		seen := make([]byte, ringBytesMax/4096)
		if _, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(&mem[headerBytes])),
			ringBytesMax, uintptr(unsafe.Pointer(&seen[0]))); errno != 0 {
			t.Fatal(errno)
		}
		for _, b := range seen {
			pages += int(b & 1)
		}
		return pages
	}
	s := &sendRing{ring: newRing(mem)}
	s.format()
	for _, c := range []struct{ bytes, want uint64 }{
		{1, firstBytes},
		{firstBytes, firstBytes + touchBytes},
		{firstBytes + touchBytes, firstBytes + 2*touchBytes},
	} {
		for s.tail < c.bytes {
			if !s.put(make([]byte, 100), nil) {
				t.Fatal("no room")
			}
		}
		if n := there(); n != int(c.want/4096) {
			t.Errorf("%d pages are there with %d bytes in the ring, not %d", n, s.tail, c.want/4096)
		}
	}
}
