package main

import (
	"errors"
	"fmt"
	"runtime"
	"sync"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// load is the workload of the callers.
type load struct {
	callers   int
	sizeBytes int           // of a request, and of its answer
	gap       time.Duration // between an answer and the next request
	duration  time.Duration // of what is measured
}

// result is the result of a load.
type result struct {
	Calls   int64   `json:"calls"`
	Seconds float64 `json:"seconds"`
	P50Us   float64 `json:"p50_us"`
	P99Us   float64 `json:"p99_us"`
	CPUUs   float64 `json:"cpu_us"` // a call, of both processes together
}

// warmup is the time for which the callers call before the measurement.
const warmup = 50 * time.Millisecond

// run makes the callers call, and measures.
func (l *load) run(c caller) (result, error) {
	warm := *l
	warm.duration, warm.gap = warmup, 0
	if err := warm.calls(c, newLatencies()); err != nil {
		return result{}, err
	}
	measured := newLatencies()
	runtime.GC()
	there, err := serverCPUNs(c)
	if err != nil {
		return result{}, err
	}
	here, begin := cpuNs(), time.Now()
	if err := l.calls(c, measured); err != nil {
		return result{}, err
	}
	took := time.Since(begin)
	here = cpuNs() - here
	after, err := serverCPUNs(c)
	hist := measured.hist
	calls := hist.TotalCount()
	us := func(percentile float64) float64 {
		return float64(hist.ValueAtPercentile(percentile)) / 1e3
	}
	return result{
		Calls: calls, Seconds: took.Seconds(), P50Us: us(50), P99Us: us(99),
		CPUUs: float64(here+after-there) / 1e3 / float64(calls),
	}, err
}

// latencies is the common histogram of all callers. One histogram per caller would not fit into the
// caches, and would distort the measurement.
type latencies struct {
	lock sync.Mutex
	hist *hdrhistogram.Histogram
}

// newLatencies returns a histogram for latencies of up to a minute.
func newLatencies() *latencies {
	const longest = 60e9
	return &latencies{hist: hdrhistogram.New(1, longest, 3)}
}

func (l *latencies) record(took time.Duration) error {
	l.lock.Lock()
	defer l.lock.Unlock()
	return l.hist.RecordValue(int64(took))
}

// calls makes the callers call for the duration.
func (l *load) calls(c caller, measured *latencies) error {
	until := time.Now().Add(l.duration)
	errs := make([]error, l.callers)
	var callers sync.WaitGroup
	for i := range l.callers {
		callers.Go(func() { errs[i] = l.caller(c, until, measured) })
	}
	callers.Wait()
	return errors.Join(errs...)
}

// caller calls repeatedly, and at least once.
func (l *load) caller(c caller, until time.Time, measured *latencies) error {
	request := make([]byte, l.sizeBytes)
	for i := 0; i == 0 || time.Now().Before(until); i++ {
		request[0] = byte(i)
		begin := time.Now()
		answer, err := c.call(request)
		if err != nil {
			return err
		}
		if err := measured.record(time.Since(begin)); err != nil {
			return err
		}
		if len(answer) != l.sizeBytes || answer[0] != byte(i) {
			return fmt.Errorf("call %d of %d bytes was answered with %d", i, l.sizeBytes, len(answer))
		}
		if l.gap > 0 {
			time.Sleep(l.gap)
		}
	}
	return nil
}
