package snapshot

import (
	"sync"
	"testing"
)

// A reader never sees the numbers of two calls of Store together.
func TestLoadIsConsistent(t *testing.T) {
	const rounds = 20_000
	var v Values
	v.Init(12)
	var readers sync.WaitGroup
	for range 2 {
		readers.Go(func() {
			var first [10]uint64
			var second [2]uint64
			for last := uint64(0); last < rounds; last = first[0] {
				v.Load(first[:], second[:])
				for _, n := range append(first[:], second[:]...) {
					if n != first[0] || n < last {
						t.Errorf("%v and %v are of no call of Store, or older than %d", first, second, last)
						return
					}
				}
			}
		})
	}
	var first [10]uint64
	var second [2]uint64
	for n := uint64(1); n <= rounds; n++ {
		for i := range first {
			first[i] = n
		}
		second = [2]uint64{n, n}
		v.Store(first[:], second[:])
	}
	readers.Wait()
}
