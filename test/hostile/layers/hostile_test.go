package layers

import (
	"testing"
	"time"
)

// heapMost is what a bad peer may leave at the most: the bounds of all layers together.
const heapMost = 96 << 20

// Beside a bad peer of each kind honest work goes on, nothing of it is lost, and memory is bounded.
// How fast it goes on is for "make hostile".
func TestBesideBadPeers(t *testing.T) {
	for _, m := range Loads() {
		l, err := m.Open()
		if err != nil {
			t.Fatal(err)
		}
		t.Run(m.Name, func(t *testing.T) {
			for _, b := range Bads() {
				r := Run(t.Context(), l, b, 1, 150*time.Millisecond)
				work := l.Work()
				for began := time.Now(); l.Work() == work && time.Since(began) < patience; {
					time.Sleep(time.Millisecond)
				}
				if r.Err != nil || l.Err() != nil || l.Work() == work {
					t.Fatalf("beside %s: %v, %v, work goes on: %v", b.Name, r.Err, l.Err(),
						l.Work() != work)
				}
				if r.PeakBytes > heapMost {
					t.Errorf("beside %s the heap has grown by %d MiB", b.Name, r.PeakBytes>>20)
				}
			}
		})
		if err := l.Close(); err != nil {
			t.Error(err)
		}
	}
}
