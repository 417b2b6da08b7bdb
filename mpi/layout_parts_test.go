package mpi

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"gobtl/internal/testenv"
)

// A layout packs and unpacks any part of its values, as it does with all of them: packets end
// anywhere in a block.
func TestPartsOfLayouts(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 9))
	shapes := func(data []byte) (all []*shape) {
		for _, block := range []int{1, 7, 8, 100} {
			up, err1 := Strided(data, 20, block, block+3)
			down, err2 := Strided(data, 20, block, -block-8)
			some, err3 := IndexedBlocks(data, []int{900, 0, 300, 1500}, block)
			odd, err4 := Indexed(data, []int{500, 3, 1200, 700}, []int{block, 0, 5, 3 * block})
			for _, err := range []error{err1, err2, err3, err4} {
				if err != nil {
					t.Fatal(err)
				}
			}
			all = append(all, &up.shape, &down.shape, &some.shape, &odd.shape)
		}
		return all
	}
	data, empty := make([]byte, 4000), make([]byte, 4000)
	for i := range data {
		data[i] = byte(random.Uint32()) | 1
	}
	into := shapes(empty)
	for k, s := range shapes(data) {
		want := make([]byte, s.bytes)
		s.Gather(want, 0)
		clear(empty)
		for range 300 {
			at := random.IntN(s.bytes)
			part := make([]byte, 1+random.IntN(s.bytes-at))
			if s.Gather(part, at); !bytes.Equal(part, want[at:at+len(part)]) {
				t.Fatalf("layout %d: %d bytes from %d on are others", k, len(part), at)
			}
			into[k].Scatter(part, at)
			if run := s.Run(at); !bytes.Equal(run, want[at:at+len(run)]) {
				t.Fatalf("layout %d: the run at %d is another", k, at)
			}
		}
		into[k].Scatter(want[:s.bytes/2], 0)
		into[k].Scatter(want[s.bytes/2:], s.bytes/2)
		got := make([]byte, s.bytes)
		if into[k].Gather(got, 0); !bytes.Equal(got, want) {
			t.Fatalf("layout %d: not what was unpacked", k)
		}
		for i, b := range empty {
			if b != 0 && b != data[i] {
				t.Fatalf("layout %d: byte %d was written, and is in no block", k, i)
			}
		}
	}
}
