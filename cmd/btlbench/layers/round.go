package layers

import (
	"errors"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
	"gobtl/internal/waiting"
)

// The type limit ends a phase of a round after a number of messages or at an instant, whichever is
// first.
type limit struct {
	messages int64
	until    mono.Time
}

func newLimit(messages, durationNs int64, now mono.Time) limit {
	l := limit{messages: math.MaxInt64, until: mono.Never}
	if durationNs > 0 {
		l.until = now.Add(time.Duration(durationNs))
	} else {
		l.messages = messages
	}
	return l
}

// Round is one side's state of a round, which the engine runs while other goroutines only call halt
// and stop.
type Round struct {
	plan.Spec
	Server bool // this side answers

	// Halted asks both sides to end at once, for a reason that the session knows.
	Halted atomic.Bool
	// Stopped asks the server to end, because the client has all results.
	Stopped atomic.Bool

	Meter Meter  // the client's measurement
	Sent  uint64 // Messages sent by this side, warm-up included
	Tally Tally  // what arrived at this side
	Usage Usage  // what the measured span cost this side

	// Reports receives the measurements of each interval of the client, or is nil.
	Reports *Reports

	// The following counts are those of the stream of lat_load, which numbers its messages
	// separately.
	LoadSent  uint64
	loadTally Tally
}

// Finish completes the verification of the given number of messages that the peer has sent.
func (r *Round) Finish(sent, loadSent uint64) {
	if !r.Verify {
		return
	}
	r.Tally.finish(sent)
	r.loadTally.finish(loadSent)
	r.Tally.Add(&r.loadTally)
}

// The method over reports whether the hot loop should end, by two loads of rarely changed flags.
func (r *Round) over() bool { return r.Halted.Load() || r.Stopped.Load() }

// Meter has the client's measurements of a round.
type Meter struct {
	Hist     *Hist // Round trips; nil unless the test is one of latency
	Messages int64
	Bytes    int64
	Elapsed  time.Duration
	Lost     int64 // raw datagrams that never arrived
	// Window is the number of messages that were in flight, if that is less than requested.
	Window    int
	LoadBytes int64 // acknowledged of the stream of lat_load
}

// Add adds the measurements of another stream in the same time.
func (m *Meter) Add(o *Meter) {
	if m.Hist != nil {
		m.Hist.Merge(o.Hist)
	}
	m.Messages += o.Messages
	m.Bytes += o.Bytes
	m.Elapsed = max(m.Elapsed, o.Elapsed)
	m.Lost += o.Lost
	m.Window = max(m.Window, o.Window)
	m.LoadBytes += o.LoadBytes
}

// Usage is the resource usage of a process in a time span.
type Usage struct {
	WallNs int64 `json:"wall_ns"`
	CPUNs  int64 `json:"cpu_ns"`
	// Collections is the number of garbage collections that ended within the time span, which on
	// the server is the time that the client has measured.
	Collections uint64 `json:"garbage_collections"`
	// Sleeps and Yields count the waits of the side. Crowded counts how often the side found that
	// other threads want its processor.
	Sleeps  uint64 `json:"sleeps"`
	Yields  uint64 `json:"yields"`
	Crowded uint64 `json:"crowded"`
}

// Add adds the usage of another span.
func (u *Usage) Add(o Usage) {
	u.WallNs += o.WallNs
	u.CPUNs += o.CPUNs
	u.Collections += o.Collections
	u.Sleeps += o.Sleeps
	u.Yields += o.Yields
	u.Crowded += o.Crowded
}

// AddThread adds the usage of another thread of the same process in the same time span.
func (u *Usage) AddThread(o *Usage) {
	u.WallNs = max(u.WallNs, o.WallNs)
	u.CPUNs = max(u.CPUNs, o.CPUNs)
	u.Collections = max(u.Collections, o.Collections)
	u.Sleeps += o.Sleeps
	u.Yields += o.Yields
	u.Crowded += o.Crowded
}

// Percent is the CPU time as a percentage of one CPU.
func (u *Usage) Percent() float64 {
	if u.WallNs == 0 {
		return 0
	}
	return math.Round(float64(u.CPUNs)/float64(u.WallNs)*1000) / 10
}

// stopwatch measures the usage of a span.
type stopwatch struct {
	wall        mono.Time
	cpu         time.Duration
	collections uint64
	waits       waiting.Counts
	policy      *waiting.Policy
}

func startWatch(w *waiter) stopwatch {
	return stopwatch{
		policy: w.policy, waits: w.policy.Counts(), collections: collections(), cpu: processCPU(),
		wall: clock(),
	}
}

func (w stopwatch) read() Usage {
	waits := w.policy.Counts()
	return Usage{
		WallNs: int64(clock() - w.wall), CPUNs: int64(processCPU() - w.cpu),
		Collections: collections() - w.collections,
		Sleeps:      waits.Sleeps - w.waits.Sleeps, Yields: waits.Yields - w.waits.Yields,
		Crowded: waits.Crowded - w.waits.Crowded,
	}
}

// TidyHeap collects garbage before a round, as package testing does before a benchmark, so that no
// collection is needed during the round.
func TidyHeap() { runtime.GC() }

// CollectionsSince is the number of garbage collections that ended after an instant.
func CollectionsSince(from time.Time) (n uint64) {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	for _, end := range stats.PauseEnd {
		if end.After(from) {
			n++
		}
	}
	return n
}

// collections is the number of garbage collections of this process so far.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// The errors below end a round.
var (
	// errSilent means that nothing arrived from the peer's bare endpoint for the peer time-out.
	errSilent = errors.New("peer does not answer")
	// ErrHalted means that the session has ended the round for a reason that is the session's
	// error.
	ErrHalted = errors.New("halted")
)
