package main

import (
	"errors"
	"fmt"
	"math"
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync/atomic"
	"time"

	"gobtl/internal/mono"
)

// roundSpec is what both sides must know of a round: one stretch of one test, size and layer.
type roundSpec struct {
	// Number tells the rounds of a session apart.
	Number    uint64 `json:"number"`
	Test      string `json:"test"`
	Layer     string `json:"layer"`
	SizeBytes int    `json:"size_bytes"`
	Window    int    `json:"window"`
	Verify    bool   `json:"verify"`
	// What the client does before it measures, and then measures: messages, or a time.
	WarmupMessages int64 `json:"warmup_messages"`
	WarmupNs       int64 `json:"warmup_ns"`
	Messages       int64 `json:"messages"`
	DurationNs     int64 `json:"duration_ns"`
	// Handle is the sender's exposed region, for the peer's puts.
	Handle uint64 `json:"handle,omitempty"`
	// PeerTimeoutNs ends a round in which nothing arrives.
	PeerTimeoutNs int64 `json:"peer_timeout_ns"`
	// Load is the stream beside the ping-pong of lat_load, in Window messages of LoadBytes.
	Load      load `json:"load,omitempty"`
	LoadBytes int  `json:"load_bytes,omitempty"`
}

// String names the round for people.
func (s *roundSpec) String() string {
	return fmt.Sprintf("%s %s (%s)", s.Test, sizeText(s.SizeBytes), s.Layer)
}

// windowBytes is the size of the messages that the window counts.
func (s *roundSpec) windowBytes() int {
	if s.Test == testLatLoad {
		return s.LoadBytes
	}
	return s.SizeBytes
}

// inFlightBytesMax bounds the memory of a window: it shrinks for large messages, to two at least.
const inFlightBytesMax = 64 << 20

// windowFor is the window that a size really gets of the one asked for.
func windowFor(window, sizeBytes int) int {
	if sizeBytes == 0 {
		return window
	}
	return min(window, max(2, inFlightBytesMax/sizeBytes))
}

// validate reports a spec that this side cannot run. It came from the wire.
func (s *roundSpec) validate() error {
	var tests testList
	switch {
	case tests.UnmarshalText([]byte(s.Test)) != nil || len(tests) != 1:
		return fmt.Errorf("unknown test %q", s.Test)
	case s.Layer != layerRaw && s.Layer != layerBTL:
		return fmt.Errorf("unknown layer %q", s.Layer)
	case s.SizeBytes < 0 || s.SizeBytes > sizeBytesMax:
		return fmt.Errorf("size %d out of range", s.SizeBytes)
	case s.Load < 0 || s.Load > loadMax || s.LoadBytes < 0 || s.LoadBytes > int(loadSizeMax):
		return fmt.Errorf("load %d of %d bytes out of range", s.Load, s.LoadBytes)
	case s.Window < 1 || s.Window > windowMax || s.Window > windowFor(windowMax, s.windowBytes()):
		return fmt.Errorf("window %d out of range for messages of %d bytes", s.Window, s.windowBytes())
	case s.PeerTimeoutNs <= 0:
		return errors.New("peer timeout out of range")
	}
	return nil
}

// limit ends a phase of a round: after a number of messages or at an instant, whichever is first.
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

// round is one side's state of a round. The engine runs it; other goroutines only call halt and
// stop.
type round struct {
	roundSpec
	server bool // this side answers

	// halted asks both sides to end at once; the session knows why.
	halted atomic.Bool
	// stopped asks the server to end: the client has all it needs.
	stopped atomic.Bool

	meter meter  // the client's measurement
	sent  uint64 // messages sent by this side, warm-up included
	tally tally  // what arrived at this side
	usage usage  // what the measured span cost this side

	// The same of the stream of lat_load, which numbers its messages apart.
	loadSent  uint64
	loadTally tally
}

// finish ends the verification of what arrived of so many messages that the peer sent.
func (r *round) finish(sent, loadSent uint64) {
	if !r.Verify {
		return
	}
	r.tally.finish(sent)
	r.loadTally.finish(loadSent)
	r.tally.add(&r.loadTally)
}

// over says that the hot loops should end: one load each, of flags that rarely change.
func (r *round) over() bool { return r.halted.Load() || r.stopped.Load() }

// meter is what the client measures of a round.
type meter struct {
	hist     *hist // round trips; nil unless the test is one of latency
	messages int64
	bytes    int64
	elapsed  time.Duration
	lost     int64 // raw datagrams that never arrived
	// window is how many messages really were in flight, where that is less than was asked for.
	window    int
	loadBytes int64 // acknowledged of the stream of lat_load
}

// usage is what a span cost a process.
type usage struct {
	WallNs int64 `json:"wall_ns"`
	CPUNs  int64 `json:"cpu_ns"`
	// Collections counts the garbage collections that ended within it; on the server, which does not
	// know when the warm-up ends, those of the time that the client has measured.
	Collections uint64 `json:"garbage_collections"`
}

func (u *usage) add(o usage) {
	u.WallNs += o.WallNs
	u.CPUNs += o.CPUNs
	u.Collections += o.Collections
}

// percent is the CPU time as a percentage of one CPU.
func (u *usage) percent() float64 {
	if u.WallNs == 0 {
		return 0
	}
	return math.Round(float64(u.CPUNs)/float64(u.WallNs)*1000) / 10
}

// stopwatch measures a span's usage.
type stopwatch struct {
	wall        mono.Time
	cpu         time.Duration
	collections uint64
}

func startWatch() stopwatch {
	return stopwatch{collections: collections(), cpu: processCPU(), wall: clock()}
}

func (w stopwatch) read() usage {
	return usage{
		WallNs: int64(clock() - w.wall), CPUNs: int64(processCPU() - w.cpu),
		Collections: collections() - w.collections,
	}
}

// tidyHeap collects garbage before a round, as package testing does before a benchmark: what lies
// around from between the rounds is no reason for a collection in the middle of one.
func tidyHeap() { runtime.GC() }

// collectionsSince is how many garbage collections have ended after an instant.
func collectionsSince(from time.Time) (n uint64) {
	var stats debug.GCStats
	debug.ReadGCStats(&stats)
	for _, end := range stats.PauseEnd {
		if end.After(from) {
			n++
		}
	}
	return n
}

// collections is how many garbage collections this process has done.
func collections() uint64 {
	sample := []metrics.Sample{{Name: "/gc/cycles/total:gc-cycles"}}
	metrics.Read(sample)
	if sample[0].Value.Kind() != metrics.KindUint64 {
		return 0
	}
	return sample[0].Value.Uint64()
}

// Errors of a round.
var (
	// errSilent: nothing arrived from the peer's bare endpoint for the peer timeout.
	errSilent = errors.New("peer does not answer")
	// errHalted: the session ended the round; its own error says why.
	errHalted = errors.New("halted")
)

// spin counts polls that found nothing. After many the thread offers its core to others: where both
// sides share one, each would otherwise spin through its whole time slice waiting for the other.
type spin struct{ empty int }

const (
	// spinBeforeYield is beyond what a peer with a core of its own takes to answer.
	spinBeforeYield = 128
	// spinChecks is how often, in empty polls, a hot loop looks at the clock. A power of two.
	spinChecks = 1024
)

// idle notes an empty poll, and reports whether it is time to look at the clock.
func (s *spin) idle() bool {
	s.empty++
	if s.empty > spinBeforeYield {
		osYield()
	}
	return s.empty%spinChecks == 0
}

// busy notes a poll that found something.
func (s *spin) busy() { s.empty = 0 }
