package bench

import "fmt"

// fill writes the content of a message. The content of a message depends on the seed, and
// neighbouring bytes differ.
func fill(b []byte, seed int) {
	for i := range b {
		b[i] = byteOf(seed, i)
	}
}

func byteOf(seed, i int) byte { return byte(seed*37 + i + i>>8*101) }

// check returns an error if a message does not have the content that fill writes.
func check(b []byte, seed int) error {
	for i, got := range b {
		if want := byteOf(seed, i); got != want {
			return fmt.Errorf("byte %d of %d is %#x, want %#x", i, len(b), got, want)
		}
	}
	return nil
}

// fillValues writes the input of a rank for a reduction. The input values are whole numbers, so
// that the sums of the values are exact.
func fillValues(v []float64, rank, iteration int) {
	for i := range v {
		v[i] = float64(rank+1) * valueOf(iteration, i)
	}
}

func valueOf(iteration, i int) float64 { return float64((iteration+i)%13 + 1) }

// checkValues returns an error if the values with the indices from first on are not the sums over
// the ranks below n.
func checkValues(v []float64, first, n, iteration int) error {
	for i, got := range v {
		if want := float64(n*(n+1)/2) * valueOf(iteration, first+i); got != want {
			return fmt.Errorf("value %d of %d is %v, want %v", i, len(v), got, want)
		}
	}
	return nil
}
