package sim_test

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/test/sim/swarm"
)

// seedsEnv overrides how many seeds the tests run.
const seedsEnv = "GOBTL_TEST_SEEDS"

// How many seeds are run: half a minute of two cores, and little where time is dear. The deliberate
// faults of test/sim/mutate that the swarm notices are noticed within 110 seeds.
const (
	seedsUsual = 300
	seedsShort = 60
	seedsRace  = 8 // a run is of one goroutine: only what runs share can be raced for
	batch      = 100
)

// coverageSeeds is the number of seeds from which on every kind of fault must have come. The seeds
// rareSeeds run then too: they have the only retransmissions that are throttled of the first 800.
const coverageSeeds = seedsUsual

var rareSeeds = []uint64{571, 761}

func seedCount(t *testing.T) uint64 {
	t.Helper()
	if s := os.Getenv(seedsEnv); s != "" {
		n, err := strconv.ParseUint(s, 10, 64)
		if err != nil {
			t.Fatalf("%s: %v", seedsEnv, err)
		}
		return n
	}
	switch {
	case testenv.Race:
		return seedsRace
	case testing.Short():
		return seedsShort
	}
	return seedsUsual
}

// TestSeeds runs a fixed set of clusters; all faults there are must have come in them.
func TestSeeds(t *testing.T) {
	var sum swarm.Result
	n := seedCount(t)
	for first := uint64(1); first <= n; first += batch {
		last := min(n, first+batch-1)
		t.Run(fmt.Sprintf("%d-%d", first, last), func(t *testing.T) {
			seeds := make([]uint64, 0, batch)
			for s := first; s <= last; s++ {
				seeds = append(seeds, s)
			}
			res := runSeeds(t, seeds, swarm.Options{})
			sum.Add(&res)
		})
	}
	if n >= coverageSeeds {
		t.Run("rare", func(t *testing.T) {
			res := runSeeds(t, rareSeeds, swarm.Options{})
			sum.Add(&res)
		})
	}
	t.Logf("%d seeds, %d packets, %d messages, %d restarts, %v of virtual time, longest drain %v",
		sum.Runs, sum.Packets, sum.Messages, sum.Restarts, sum.Virtual, sum.Drained)
	if missing := sum.Missing(); n >= coverageSeeds && len(missing) > 0 {
		t.Errorf("never exercised: %s", strings.Join(missing, ", "))
	}
}

// TestAdaptive runs a part of the clusters with all modules on the adaptive profile.
func TestAdaptive(t *testing.T) {
	var seeds []uint64
	for s := uint64(1); s <= max(1, seedCount(t)/5); s++ {
		seeds = append(seeds, s)
	}
	runSeeds(t, seeds, swarm.Options{Profile: "adaptive"})
}

// TestReliable runs a part of the clusters on networks that lose nothing by themselves.
func TestReliable(t *testing.T) {
	var seeds []uint64
	for s := uint64(1); s <= max(1, seedCount(t)/5); s++ {
		seeds = append(seeds, s)
	}
	runSeeds(t, seeds, swarm.Options{Reliable: true})
}

// TestRegressions runs the seeds of testdata/seeds.txt: with the profiles that they draw, and with
// the one that all modules had when most of them failed.
func TestRegressions(t *testing.T) {
	seeds := regressions(t)
	if testenv.Race {
		seeds = seeds[:seedsRace]
	}
	for _, profile := range []string{"", "usnic"} {
		runSeeds(t, seeds, swarm.Options{Profile: profile})
	}
}

func regressions(t *testing.T) (seeds []uint64) {
	t.Helper()
	f, err := os.Open("testdata/seeds.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for in := bufio.NewScanner(f); in.Scan(); {
		line := strings.TrimSpace(in.Text())
		if line == "" || line[0] == '#' {
			continue
		}
		number, why, _ := strings.Cut(line, " ")
		seed, err := strconv.ParseUint(number, 10, 64)
		if err != nil || strings.TrimSpace(why) == "" {
			t.Fatalf("testdata/seeds.txt: %q is no seed with a comment", line)
		}
		seeds = append(seeds, seed)
	}
	if len(seeds) == 0 {
		t.Fatal("testdata/seeds.txt has no seeds")
	}
	return seeds
}

// runSeeds runs seeds on all processors and reports those that fail.
func runSeeds(t *testing.T, seeds []uint64, opts swarm.Options) (sum swarm.Result) {
	t.Helper()
	var (
		next atomic.Int64
		mu   sync.Mutex
		wg   sync.WaitGroup
	)
	for range runtime.GOMAXPROCS(0) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(seeds) {
					return
				}
				res := swarm.Run(seeds[i], opts)
				mu.Lock()
				sum.Add(&res)
				if res.Err != nil {
					t.Errorf("seed %d: %v\n  make replay SEED=%d%s", seeds[i], res.Err, seeds[i], flags(&opts))
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	return sum
}

// flags are what a replay needs beside the seed.
func flags(opts *swarm.Options) string {
	switch {
	case opts.Reliable:
		return " SWARM_FLAGS=--reliable"
	case opts.Profile != "":
		return " SWARM_FLAGS='--profile " + opts.Profile + "'"
	}
	return ""
}

// TestDeterministic: two runs of a seed are the same event by event, also while others run beside
// them, and also when one of them is watched.
func TestDeterministic(t *testing.T) {
	n := uint64(10)
	switch {
	case testenv.Race:
		n = 2
	case testing.Short():
		n = 4
	}
	for seed := uint64(1000); seed < 1000+n; seed++ {
		t.Run(strconv.FormatUint(seed, 10), func(t *testing.T) {
			t.Parallel()
			a := swarm.Run(seed, swarm.Options{})
			b := swarm.Run(seed, swarm.Options{})
			var text, capture bytes.Buffer
			c, err := swarm.Replay(seed, swarm.Options{}, &text, &capture)
			if err != nil {
				t.Fatal(err)
			}
			for _, o := range []*swarm.Result{&b, &c} {
				if o.Hash != a.Hash || o.Counts != a.Counts || o.Virtual != a.Virtual {
					t.Errorf("seed %d: hash %x after %v, then %x after %v", seed, a.Hash, a.Virtual, o.Hash,
						o.Virtual)
				}
			}
			if a.Packets == 0 || text.Len() == 0 || capture.Len() == 0 {
				t.Errorf("seed %d: %d packets, a trace of %d bytes, a capture of %d", seed, a.Packets,
					text.Len(), capture.Len())
			}
		})
	}
}

// skipRace skips a test whose code runs on one goroutine, where the race detector finds nothing.
func skipRace(t *testing.T) {
	t.Helper()
	if testenv.Race {
		t.Skip("no goroutines")
	}
}

// Different seeds are different runs.
func TestSeedsDiffer(t *testing.T) {
	seen := map[uint64]uint64{}
	for seed := uint64(1); seed <= 20; seed++ {
		res := swarm.Run(seed, swarm.Options{Limit: 3000})
		if other, ok := seen[res.Hash]; ok {
			t.Errorf("seeds %d and %d have the same hash", seed, other)
		}
		seen[res.Hash] = seed
	}
}
