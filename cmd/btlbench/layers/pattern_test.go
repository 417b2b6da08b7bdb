package layers

import (
	"fmt"
	"testing"

	"pgregory.net/rapid"
)

func Example_histogram() {
	h := NewHist()
	for roundTripNs := int64(6000); roundTripNs < 7000; roundTripNs++ {
		h.Record(roundTripNs)
	}
	fmt.Printf("min %.1f us, p50 %.2f us\n", h.Stats().Min, h.Stats().P50)
	// Output: min 3.0 us, p50 3.25 us
}

// TestPatternFindsEveryByte alters each byte of a message in turn.
func TestPatternFindsEveryByte(t *testing.T) {
	for _, size := range []int{0, 1, 3, 7, 8, 9, 15, 16, 17, 1000} {
		b := make([]byte, size)
		fillPattern(b, 12345)
		if n := corruptBytes(b, 12345); n != 0 {
			t.Fatalf("size %d: %d bytes differ from themselves", size, n)
		}
		for i := range b {
			b[i] ^= 0x40
			if n := corruptBytes(b, 12345); n != 1 {
				t.Errorf("size %d: byte %d altered, %d reported", size, i, n)
			}
			b[i] ^= 0x40
		}
	}
}

// TestPatternTellsPlaces compares pieces of messages with what belongs elsewhere.
func TestPatternTellsPlaces(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.Uint64Range(0, 1<<40).Draw(t, "message")
		other := rapid.Uint64Range(0, 1<<40).Draw(t, "other")
		a, b := make([]byte, 256), make([]byte, 256)
		fillPattern(a, n)
		fillPattern(b, other)
		if n != other && corruptBytes(b, n) < 200 {
			t.Fatalf("messages %d and %d differ in %d bytes only", n, other, corruptBytes(b, n))
		}
		// A chunk at the wrong offset.
		copy(a[64:128], a[128:192])
		if corruptBytes(a, n) < 48 {
			t.Fatalf("a moved chunk of message %d shows in %d bytes only", n, corruptBytes(a, n))
		}
	})
}

// TestStampOf decodes stamps cut short, as long as the true number is near the expected one.
func TestStampOf(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		size := rapid.IntRange(1, 12).Draw(t, "size")
		reach := int64(1) << min(40, 8*size-1)
		expected := rapid.Uint64Range(0, 1<<50).Draw(t, "expected")
		offset := rapid.Int64Range(max(-reach+1, -int64(expected)), reach-1).Draw(t, "offset")
		n := uint64(int64(expected) + offset)
		b := make([]byte, size)
		fillPattern(b, n)
		if got := stampOf(b, expected); got != n {
			t.Fatalf("size %d, expected %d: %d became %d", size, expected, n, got)
		}
	})
	if got := stampOf(nil, 7); got != 7 {
		t.Errorf("an empty message is number %d, want the expected 7", got)
	}
}

// TestSeenSetModel compares the ring with a plain set.
func TestSeenSetModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		var s seenSet
		model := make(map[uint64]bool)
		top := uint64(0)
		for range rapid.IntRange(0, 300).Draw(t, "steps") {
			n := uint64(max(0, int64(top)+rapid.Int64Range(-40, 40).Draw(t, "n")))
			if got := s.mark(n); got == model[n] {
				t.Fatalf("mark(%d) = %v with seen = %v", n, got, model[n])
			}
			model[n] = true
			top = max(top, n+1)
		}
		if got, want := s.missing(top), int64(top)-int64(len(model)); got != want {
			t.Fatalf("%d missing, want %d", got, want)
		}
		if s.top != top {
			t.Fatalf("top %d, want %d", s.top, top)
		}
	})
}

func TestSeenSetGivesUp(t *testing.T) {
	var s seenSet
	s.mark(1)
	for n := uint64(2); n < 3*seenBits; n++ {
		if !s.mark(n) {
			t.Fatalf("%d counts as seen", n)
		}
	}
	if s.mark(0) {
		t.Error("a number given up counts as new")
	}
	if s.mark(1 << 60) {
		t.Error("a number out of the world counts as new")
	}
	if got := s.missing(3 * seenBits); got != 1 {
		t.Errorf("%d missing, want 1", got)
	}
}

func TestTally(t *testing.T) {
	const size = 24
	message := func(n uint64) []byte {
		b := make([]byte, size)
		fillPattern(b, n)
		return b
	}
	var c Tally
	for _, n := range []uint64{1, 0, 3, 3} {
		c.check(message(n), size)
	}
	bad := message(4)
	bad[20] ^= 1
	c.check(bad, size)
	unknown := message(6)
	unknown[2] ^= 1 // Whatever it says now, it is not message 6 + 65536.
	c.check(unknown, size)
	c.check(message(5)[:10], size)
	c.finish(7) // 2 and 6 never came.
	if c.Duplicates != 1 || c.Missing != 2 || c.CorruptBytes < 1+size+size/2 {
		t.Errorf("%d duplicates, %d missing, %d corrupt", c.Duplicates, c.Missing, c.CorruptBytes)
	}
	if got, want := c.VerifiedBytes+c.CorruptBytes, int64(6*size+size); got != want {
		t.Errorf("%d bytes verified or corrupt, want %d", got, want)
	}
}

func TestHistRange(t *testing.T) {
	h := NewHist()
	if h.Stats() != nil {
		t.Error("statistics of nothing")
	}
	h.Record(2)
	h.Record(histMaxNs * 3)
	other := NewHist()
	other.Record(4)
	h.Merge(other)
	if h.Count() != 3 || h.Clipped != 1 {
		t.Errorf("%d values, %d clipped", h.Count(), h.Clipped)
	}
	s := h.Stats()
	if s.Min != 0.001 || s.P50 != 0.002 || s.Max < 299e6 || s.Max > 301e6 {
		t.Errorf("%+v", *s)
	}
	h.Reset()
	if h.Count() != 0 || h.Clipped != 0 {
		t.Error("reset left something")
	}
}

func BenchmarkFillPattern(b *testing.B) {
	buf := make([]byte, 64<<10)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		fillPattern(buf, 7)
	}
}

func BenchmarkCorruptBytes(b *testing.B) {
	buf := make([]byte, 64<<10)
	fillPattern(buf, 7)
	b.SetBytes(int64(len(buf)))
	for b.Loop() {
		if corruptBytes(buf, 7) != 0 {
			b.Fatal("corrupt")
		}
	}
}

func BenchmarkHistRecord(b *testing.B) {
	h := NewHist()
	for b.Loop() {
		h.Record(6543)
	}
}
