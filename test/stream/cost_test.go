//go:build linux

package stream

import (
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	figures "gobtl/internal/report"
)

var costMessages = flag.Uint64("messages", 100_000, "messages of a stream of BenchmarkMetrics")

// BenchmarkMetrics is what metrics cost a stream at full speed. Streams with and without take
// turns. How fast they are says too little: that moves by tens of percent between two that are
// alike. But the loop that moves messages has an OS thread to itself, and all that metrics add is
// done by other threads, apart from what a sample costs the loop (BenchmarkSample of
// cmd/btlstream): what these threads use of the CPU is what they take from the loop where there is
// no core to spare. So
//
//	cost-%        CPU time of the other threads with metrics, less that without, of the loop's
//	speed-ratio   messages per second with metrics to those without; medians both
//
//	go test -run='^$' -bench=Metrics -benchtime=9x ./test/stream -messages 10000000
func BenchmarkMetrics(b *testing.B) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(io.Discard, r.Body)
		w.WriteHeader(http.StatusNoContent)
	}))
	defer server.Close()
	for _, mode := range modes {
		b.Run(mode[1], func(b *testing.B) {
			var costs, ratios []float64
			for i := range b.N {
				var use [2]usage // without and with
				for k := range 2 {
					with := (i + k) % 2
					use[with] = costOf(b, mode, server.URL, with == 1)
				}
				extra := use[1].share() - use[0].share()
				costs = append(costs, 100*extra)
				ratios = append(ratios, use[1].speed/use[0].speed)
			}
			slices.Sort(costs)
			b.ReportMetric(figures.Median(costs), "cost-%")
			b.ReportMetric(costs[len(costs)-1], "worst-cost-%")
			b.ReportMetric(figures.Median(ratios), "speed-ratio")
		})
	}
}

// usage is what a stream used of the CPU on both sides, and its speed.
type usage struct {
	loop, others time.Duration
	speed        float64
}

// share is the part of the other threads, to that of the loops.
func (u *usage) share() float64 { return float64(u.others) / float64(u.loop) }

// startLooks is when a program has started; what it uses before is no cost of a long stream.
const startLooks = 25

// costOf runs a stream of 1 KiB messages.
func costOf(b *testing.B, mode []string, influx string, metrics bool) (u usage) {
	b.Helper()
	both := append([]string{
		"-m1024", "-b64", "-c64", "--quiet", fmt.Sprintf("-t%d", *costMessages),
	}, mode...)
	if metrics {
		both = append(both, "-v25000", "-o", influx, "--metrics", "127.0.0.1:0")
	}
	rx, tx := pair(b, both, nil, nil)
	var scraping []string
	if metrics {
		for _, p := range []*process{rx, tx} {
			scraping = append(scraping, found(b, &p.stderr, `metrics on (\S+)\n`))
		}
	}
	threads := map[string]time.Duration{} // by their folder
	before := map[string]time.Duration{}  // what they used to start
	for look := 0; !over(rx) || !over(tx); look++ {
		for _, p := range []*process{rx, tx} {
			readThreads(p.cmd.Process.Pid, threads)
			if look == startLooks {
				readThreads(p.cmd.Process.Pid, before)
			}
		}
		if look%50 == 0 { // once a second
			for _, at := range scraping {
				if resp, err := http.Get(at); err == nil {
					_, _ = io.Copy(io.Discard, resp.Body)
					resp.Body.Close()
				}
			}
		}
		time.Sleep(20 * time.Millisecond)
	}
	rx.ok()
	tx.ok()
	for _, p := range []*process{rx, tx} {
		var most, sum time.Duration
		for name, used := range threads {
			if strings.HasPrefix(name, fmt.Sprintf("/proc/%d/", p.cmd.Process.Pid)) {
				used -= before[name]
				most, sum = max(most, used), sum+used
			}
		}
		u.loop += most
		u.others += sum - most
	}
	r := rx.report()
	if r.Sent != *costMessages || u.loop == 0 {
		b.Fatalf("%+v, loops %v", r, u.loop)
	}
	u.speed = float64(r.Sent) / r.Seconds
	return u
}

func over(p *process) bool {
	select {
	case <-p.exited:
		return true
	default:
		return false
	}
}

// readThreads notes what the threads of a process have used; one that has ended keeps its latest.
func readThreads(pid int, threads map[string]time.Duration) {
	names, _ := filepath.Glob(fmt.Sprintf("/proc/%d/task/*", pid)) // the pattern is right
	for _, name := range names {
		text, err := os.ReadFile(filepath.Join(name, "schedstat"))
		var ns int64
		if err == nil {
			if _, err = fmt.Sscan(string(text), &ns); err == nil {
				threads[name] = time.Duration(ns)
			}
		}
	}
}
