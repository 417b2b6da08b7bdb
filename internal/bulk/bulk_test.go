package bulk

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestCopy compares Copy with copy, for all alignments within a cache line and for sizes near the
// limits. Bytes around the destination must stay unchanged.
func TestCopy(t *testing.T) {
	const most = Min + 3*lineBytes
	rng := rand.New(rand.NewPCG(1, 2))
	src := make([]byte, most+2*lineBytes)
	for i := range src {
		src[i] = byte(rng.Uint32())
	}
	dst, want := make([]byte, len(src)), make([]byte, len(src))
	for to := range lineBytes {
		for range 64 {
			from := rng.IntN(lineBytes)
			size := []int{0, 1, Min - 1, Min, Min + 1, rng.IntN(most)}[rng.IntN(6)]
			room := size + rng.IntN(3) - 1
			room = max(room, 0)
			clear(dst)
			clear(want)
			n := copy(want[to:to+room], src[from:from+size])
			if got := Copy(dst[to:to+room], src[from:from+size]); got != n {
				t.Fatalf("%d bytes into %d: copied %d, want %d", size, room, got, n)
			}
			if !bytes.Equal(dst, want) {
				t.Fatalf("%d bytes from %d to %d: not what copy does", size, from, to)
			}
		}
	}
}

func BenchmarkCopy(b *testing.B) {
	src, dst := make([]byte, 64<<10), make([]byte, 64<<10)
	for _, size := range []int{1 << 10, Min, 16 << 10, 64 << 10} {
		for name, f := range map[string]func(dst, src []byte) int{
			"string": Copy,
			"plain":  func(dst, src []byte) int { return copy(dst, src) },
		} {
			b.Run(name, func(b *testing.B) {
				b.SetBytes(int64(size))
				for b.Loop() {
					f(dst[:size], src)
				}
			})
		}
	}
}
