package matrix

import (
	"sync"

	"gobtl/fabric/sim"
)

// Run measures every cell with every profile, on the given number of goroutines. The results are
// ordered by cell, and within a cell by profile. The function tell, which may be nil, is called
// after each measurement.
func Run(cells []Cell, profiles []string, e Effort, workers int, tell func(done, of int),
) ([]Result, error) {
	results := make([]Result, len(cells)*len(profiles))
	var (
		mu         sync.Mutex
		next, done int
		failed     error
		wg         sync.WaitGroup
	)
	take := func() (int, bool) {
		mu.Lock()
		defer mu.Unlock()
		next++
		return next - 1, next <= len(results) && failed == nil
	}
	finish := func(err error) {
		mu.Lock()
		defer mu.Unlock()
		if failed == nil {
			failed = err
		}
		done++
		if tell != nil {
			tell(done, len(results))
		}
	}
	for range max(1, workers) {
		wg.Go(func() {
			memory := new(sim.Memory)
			for i, ok := take(); ok; i, ok = take() {
				var err error
				results[i], err = Measure(cells[i/len(profiles)], profiles[i%len(profiles)], e, memory)
				finish(err)
			}
		})
	}
	wg.Wait()
	return results, failed
}
