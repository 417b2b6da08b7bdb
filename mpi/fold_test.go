package mpi

import "testing"

// Sums of all lengths are those of each value with its own.
func TestSumLengths(t *testing.T) {
	sum := Sum[int32]()
	for n := range 19 {
		a, b := make([]int32, n), make([]int32, n)
		for i := range a {
			a[i], b[i] = int32(1000*i), int32(i+1)
		}
		acc, _ := bytesOf(a)
		x, _ := bytesOf(b)
		sum.fold(acc, x, false)
		for i, v := range a {
			if v != int32(1000*i+i+1) || b[i] != int32(i+1) {
				t.Errorf("value %d of %d is %d", i, n, v)
			}
		}
	}
}

func BenchmarkSum(b *testing.B) {
	acc, x := make([]byte, 1<<20), make([]byte, 1<<20)
	op := Sum[float64]()
	b.SetBytes(1 << 20)
	for b.Loop() {
		op.fold(acc, x, false)
	}
}
