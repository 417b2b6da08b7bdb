//go:build linux

package recovery

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"slices"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"golang.org/x/sys/unix"
)

// Spec tells a process on a host what to do.
type Spec struct {
	Kind     string // "btl", "tcp" or "rxd"
	Role     string // "serve", "stream" or "pingpong"
	Node     string // the local address
	Provider string // of the fabric, "udp" by default
	Peer     string // what the server gave as its Name
	Set      []string
	// Echo makes a server answer each message.
	Echo bool
	// Tag distinguishes the messages of a sender from those of other senders.
	Tag         int
	SizeBytes   int
	Outstanding int   // messages on their way
	LimitBytes  int64 // ends a stream; 0: only the time does
	Warm, Each  time.Duration
	Congestion  string // TCP's congestion control
	CPU         int    // 1 is the first that the process may use; 0: any
}

// Each process writes its reports as JSON objects, one per line.
type message struct {
	Event string // "name", "ready", "report", "error"
	Name  string `json:",omitempty"` // how to reach a server
	Error string `json:",omitempty"`
	*Report
}

// Report holds the measurements of a process. Times are of CLOCK_MONOTONIC, which all processes of
// the machine share.
type Report struct {
	Start, End int64 `json:",omitempty"` // the measured time
	Messages   int   `json:",omitempty"`
	Bytes      int64 `json:",omitempty"`
	// Ticks are the numbers of bytes that a server has received.
	Ticks    []Tick            `json:",omitempty"`
	Latency  *Latency          `json:",omitempty"`
	Counters map[string]uint64 `json:",omitempty"` // during the measured time; a server's: all
}

// Tick is the number of bytes that a server has received for each tag at one time.
type Tick struct {
	T     int64
	Bytes []int64
}

// Latency is the time of whole round trips, in microseconds.
type Latency struct {
	Count                int
	P50, P99, P999, MaxU float64
}

// latencyOf sorts the round trips.
func latencyOf(ns []int64) *Latency {
	if len(ns) == 0 {
		return nil
	}
	slices.Sort(ns)
	at := func(q float64) float64 { return float64(ns[int(q*float64(len(ns)-1))]) / 1e3 }
	return &Latency{Count: len(ns), P50: at(0.5), P99: at(0.99), P999: at(0.999), MaxU: at(1)}
}

// clockNs is the monotonic clock that all processes of the machine share, in nanoseconds.
func clockNs() int64 {
	var ts unix.Timespec
	if err := unix.ClockGettime(unix.CLOCK_MONOTONIC, &ts); err != nil {
		return 0
	}
	return ts.Nano()
}

// steering reads the parent's commands, where "go" starts a measurement, and "stop" or the end of
// the input ends it.
type steering struct {
	begun, stopped atomic.Bool
	stop, begin    chan struct{}
	mu             sync.Mutex
	wake           func() // called on either
	out            *json.Encoder
}

func steer(in io.Reader, out io.Writer) *steering {
	s := &steering{
		stop: make(chan struct{}), begin: make(chan struct{}), out: json.NewEncoder(out),
	}
	go func() {
		for lines := bufio.NewScanner(in); lines.Scan() && lines.Text() == "go"; {
			if !s.begun.Swap(true) {
				close(s.begin)
			}
			s.alarm()
		}
		s.stopped.Store(true)
		close(s.stop)
		s.alarm()
	}()
	return s
}

func (s *steering) alarm() {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.wake != nil {
		s.wake()
	}
}

// onWake sets the function that ends a sleep of the process.
func (s *steering) onWake(f func()) {
	s.mu.Lock()
	s.wake = f
	s.mu.Unlock()
}

func (s *steering) say(m message) error { return s.out.Encode(m) }

// RoleMain is the program of a process on a host, where args is a Spec as JSON.
func RoleMain(spec string, in io.Reader, out io.Writer) error {
	s := steer(in, out)
	var sp Spec
	err := json.Unmarshal([]byte(spec), &sp)
	if err == nil {
		err = pin(sp.CPU)
	}
	if err == nil {
		switch sp.Kind {
		case "btl":
			err = btlRole(sp, s)
		case "tcp":
			err = tcpRole(sp, s)
		case "rxd":
			err = rxdRole(sp, s)
		default:
			err = fmt.Errorf("no such kind: %q", sp.Kind)
		}
	}
	if err != nil {
		_ = s.say(message{Event: "error", Error: err.Error()})
	}
	return err
}

// pin keeps the calling thread on one CPU, if there are enough CPUs, so that two polling processes
// do not share one.
func pin(cpu int) error {
	var all, one unix.CPUSet
	if cpu == 0 {
		return nil
	}
	runtime.LockOSThread() // for good: the role runs here
	if err := unix.SchedGetaffinity(0, &all); err != nil {
		return err
	}
	for i := range 8 * len(all) * int(unsafe.Sizeof(all[0])) {
		if !all.IsSet(i) {
			continue
		}
		if cpu--; cpu == 0 {
			one.Set(i)
			return unix.SchedSetaffinity(0, &one)
		}
	}
	return nil
}

// ledger records the bytes that a server receives.
type ledger struct {
	got   []int64
	ticks []Tick
	next  int64
}

// every is the interval between two ticks.
const every = 5 * time.Millisecond

func (l *ledger) add(tag, n int) {
	for len(l.got) <= tag {
		l.got = append(l.got, 0)
	}
	l.got[tag] += int64(n)
}

func (l *ledger) tick(now int64) {
	if now < l.next {
		return
	}
	l.next = now + int64(every)
	n := len(l.ticks)
	if n >= 2 && slices.Equal(l.got, l.ticks[n-1].Bytes) && slices.Equal(l.got, l.ticks[n-2].Bytes) {
		l.ticks[n-1].T = now // nothing came: the pause has a beginning and an end
		return
	}
	l.ticks = append(l.ticks, Tick{T: now, Bytes: slices.Clone(l.got)})
}

// between returns the bytes received for a tag between two times, interpolated.
func between(ticks []Tick, tag int, from, to int64) float64 {
	return upTo(ticks, tag, to) - upTo(ticks, tag, from)
}

func upTo(ticks []Tick, tag int, t int64) float64 {
	bytes := func(i int) float64 {
		if i < 0 || tag >= len(ticks[i].Bytes) {
			return 0
		}
		return float64(ticks[i].Bytes[tag])
	}
	i, _ := slices.BinarySearchFunc(ticks, t, func(k Tick, t int64) int { return int(k.T - t) })
	if i == len(ticks) {
		return bytes(i - 1)
	}
	if i == 0 {
		return bytes(0)
	}
	a, b := ticks[i-1], ticks[i]
	return bytes(i-1) + (bytes(i)-bytes(i-1))*float64(t-a.T)/float64(b.T-a.T)
}
