//go:build linux

package recovery

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/reliability"
	"gobtl/test/netns"
)

// Options selects the measurements, and zero fields have defaults.
type Options struct {
	Cases   []string // of Cases
	Systems []string // their IDs
	// More holds further variants of gobtl, such as "id:profile=usnic,ack_delay=20us".
	More    []string
	Rounds  int
	Each    time.Duration // the measured time of a stream or a ping-pong
	Limit   time.Duration // begin nothing after it
	Losses  []float64     // shares
	Queues  []int         // bytes
	Senders int           // of an incast
	// IncastBytes is the number of bytes that each sender sends.
	IncastBytes int64
	// Congestion is the congestion control of TCP.
	Congestion string
	// Calm is the longest wait, before a measurement, for a machine without other load.
	Calm time.Duration
	// Progress is called with the name of the next measurement.
	Progress func(done, total int, what string)
}

// Cases lists the measurements.
var Cases = []string{"loss", "share", "incast", "pause", "clean"}

func (o Options) withDefaults() Options {
	if len(o.Cases) == 0 {
		o.Cases = Cases
	}
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.Rounds, 5)
	def(&o.Senders, 16)
	if o.Each == 0 {
		o.Each = 600 * time.Millisecond
	}
	if o.Limit == 0 {
		o.Limit = 12 * time.Minute
	}
	if o.Losses == nil {
		o.Losses = []float64{0, 0.001, 0.01, 0.05}
	}
	if o.Queues == nil {
		o.Queues = []int{20_000, 100_000, 1_000_000}
	}
	if o.IncastBytes == 0 {
		o.IncastBytes = 8 << 20
	}
	if o.Congestion == "" {
		o.Congestion = "cubic"
	}
	if o.Progress == nil {
		o.Progress = func(int, int, string) {}
	}
	return o
}

// Quick selects one short round with the most important measurements.
func (o *Options) Quick() {
	if o.Rounds == 0 {
		o.Rounds = 1
	}
	if o.Limit == 0 {
		o.Limit = time.Minute
	}
	if o.Each == 0 {
		o.Each = 500 * time.Millisecond
	}
	if o.Losses == nil {
		o.Losses = []float64{0, 0.01}
	}
	if o.Queues == nil {
		o.Queues = []int{100_000}
	}
	if o.IncastBytes == 0 {
		o.IncastBytes = 2 << 20
	}
}

// System is a system that is measured.
type System struct {
	ID, Label string
	Kind      string // "btl", "tcp", "rxd"
	Set       []string
	Provider  string
}

// systems returns the systems that this build contains and that were requested.
func (o Options) systems() ([]System, error) {
	all := []System{{ID: "usnic", Label: "gobtl usnic", Kind: "btl", Set: []string{"profile=usnic"}}}
	if _, err := reliability.Profile("adaptive"); err == nil {
		all = append(all, System{
			ID: "adaptive", Label: "gobtl adaptive", Kind: "btl", Set: []string{"profile=adaptive"},
		})
		fixed := []string{"profile=adaptive", "congestion=fixed"}
		if checkSet(fixed) == nil {
			all = append(all, System{ID: "fixed", Label: "adaptive, fixed", Kind: "btl", Set: fixed})
		}
	}
	for _, m := range o.More {
		id, list, ok := strings.Cut(m, ":")
		set := strings.Split(list, ",")
		if !ok || id == "" {
			return nil, fmt.Errorf("variant %q: want id:name=value,name=value", m)
		}
		if err := checkSet(set); err != nil {
			return nil, fmt.Errorf("variant %q: %w", m, err)
		}
		all = append(all, System{ID: id, Label: "gobtl " + id, Kind: "btl", Set: set})
	}
	all = append(all, System{ID: "tcp", Label: "TCP " + o.Congestion, Kind: "tcp"})
	const rxd = "ofi/udp;ofi_rxd"
	if _, err := fabric.GetInfo(fabric.Hints{Provider: rxd}); err == nil { // not without cgo
		all = append(all, System{ID: "rxd", Label: "udp;ofi_rxd", Kind: "rxd", Provider: rxd})
	}
	if len(o.Systems) == 0 {
		return all, nil
	}
	for _, id := range o.Systems {
		if !slices.ContainsFunc(all, func(s System) bool { return s.ID == id }) {
			return nil, fmt.Errorf("no such system here: %q", id)
		}
	}
	return slices.DeleteFunc(all, func(s System) bool {
		return !slices.Contains(o.Systems, s.ID)
	}), nil
}

func checkSet(set []string) error {
	var cfg btl.Config
	for _, kv := range set {
		name, value, _ := strings.Cut(kv, "=")
		if err := cfg.Set(name, value); err != nil {
			return err
		}
	}
	return nil
}

// Sample is one measurement of one system.
type Sample struct {
	Case, Setting, System string
	Round                 int
	Values                map[string]float64           `json:",omitempty"`
	Counters              map[string]map[string]uint64 `json:",omitempty"`
	Err                   string                       `json:",omitempty"`
}

// Result holds all measurements.
type Result struct {
	Options    Options  `json:"-"`
	Machine    []string // for people
	Systems    []System
	Samples    []Sample
	Unfinished string `json:",omitempty"` // why not all rounds are there
	Complete   int    // rounds
}

// point is one quantity that is measured in every round.
type point struct {
	setting string
	system  string
	measure func(s *Sample) error
}

// bench is a run of all measurements.
type bench struct {
	Options
	tb      netns.TB
	systems []System
}

// Run runs the measurements. Without the right to make network namespaces, or without a required
// program, the TB is told to skip.
func Run(tb netns.TB, o Options) (*Result, error) {
	begin := time.Now()
	o = o.withDefaults()
	b := &bench{Options: o, tb: tb}
	var err error
	if b.systems, err = o.systems(); err != nil {
		return nil, err
	}
	points := make(map[string][]point)
	total := 0
	for _, c := range o.Cases {
		switch c {
		case "loss":
			points[c] = b.loss()
		case "share":
			points[c] = b.share()
		case "incast":
			points[c] = b.incast()
		case "pause":
			points[c] = b.pause()
		case "clean":
			points[c] = b.clean()
		default:
			return nil, fmt.Errorf("no such case: %q of %v", c, Cases)
		}
		total += len(points[c]) * o.Rounds * o.times(c)
	}
	r := &Result{Options: o, Machine: machine(o), Systems: b.systems}
	for round := range o.Rounds {
		for _, c := range o.Cases {
			if err := b.round(r, c, points[c], round, begin, total); err != nil || r.Unfinished != "" {
				return r, err
			}
		}
		r.Complete++
	}
	return r, nil
}

// times is how often each round measures a case.
func (o *Options) times(c string) int {
	if c == "clean" && o.Rounds > 1 {
		return cleanTimes
	}
	return 1
}

// round measures the points of a case, in the opposite order in every second round, so that no
// point always follows the same one.
func (b *bench) round(r *Result, c string, points []point, round int, begin time.Time,
	total int,
) error {
	for turn := range b.times(c) {
		for i := range points {
			number := round*b.times(c) + turn
			if number%2 == 1 {
				i = len(points) - 1 - i
			}
			if err := b.tb.Context().Err(); err != nil {
				return err
			}
			if time.Since(begin) > b.Limit {
				r.Unfinished = fmt.Sprintf("the time limit of %v came in round %d", b.Limit, round+1)
				return nil
			}
			p := points[i]
			b.Progress(len(r.Samples), total, fmt.Sprintf("%s, %s, %s", c, p.setting, p.system))
			s := Sample{
				Case: c, Setting: p.setting, System: p.system, Round: number + 1,
				Values: make(map[string]float64), Counters: make(map[string]map[string]uint64),
			}
			b.calm()
			if err := p.measure(&s); err != nil {
				s.Err = err.Error()
			}
			r.Samples = append(r.Samples, s)
		}
	}
	return nil
}

// calm waits until the CPUs are nearly idle.
func (b *bench) calm() {
	const busyMost = 0.2
	begin := time.Now()
	idle, total := ticks()
	for time.Since(begin) < b.Calm && b.tb.Context().Err() == nil {
		time.Sleep(200 * time.Millisecond)
		idleNow, totalNow := ticks()
		if idleNow-idle > (totalNow-total)*(1-busyMost) {
			return
		}
		idle, total = idleNow, totalNow
	}
}

// ticks reads the idle time, and the total time, of all CPUs.
func ticks() (idle, total float64) {
	stat, err := os.ReadFile("/proc/stat")
	if err != nil {
		return 0, 0
	}
	line, _, _ := strings.Cut(string(stat), "\n")
	for i, f := range strings.Fields(line) { // cpu user nice system idle iowait ...
		n, err := strconv.ParseFloat(f, 64)
		if err != nil {
			continue
		}
		if total += n; i == 4 || i == 5 {
			idle += n
		}
	}
	return idle, total
}

// note stores the non-zero counters of a process with a sample.
func (s *Sample) note(who string, r *Report) {
	if len(r.Counters) == 0 {
		return
	}
	kept := maps.Clone(r.Counters)
	maps.DeleteFunc(kept, func(_ string, n uint64) bool { return n == 0 })
	s.Counters[who] = kept
}

// resent is the share of the packets of some senders that were retransmitted, in percent.
func resent(reports ...*Report) float64 {
	var sent, again uint64
	for _, r := range reports {
		sent += r.Counters["sent"]
		again += r.Counters["resent"]
	}
	return 100 * float64(again) / float64(max(1, sent))
}

// jain is Jain's index of fairness, which is 1 if all values are equal and 1/n if one has
// everything.
func jain(x []float64) float64 {
	var sum, squares float64
	for _, v := range x {
		sum += v
		squares += v * v
	}
	if squares == 0 {
		return 0
	}
	return sum * sum / (float64(len(x)) * squares)
}

// serve and send are the two processes of a flow of a system.
func (b *bench) serve(sys System, at netns.Port, echo bool) party {
	return party{at: at, sp: Spec{
		Kind: sys.Kind, Role: "serve", Set: sys.Set, Provider: sys.Provider, Echo: echo,
	}}
}

func (b *bench) send(sys System, at netns.Port, server int, role string, sizeBytes int) party {
	const inFlightBytes = 8 << 20
	if sys.Kind == "rxd" {
		sizeBytes = min(sizeBytes, rxdMessageBytes)
	}
	return party{at: at, server: server, sp: Spec{
		Kind: sys.Kind, Role: role, Set: patient(sys), Provider: sys.Provider, SizeBytes: sizeBytes,
		Outstanding: min(1024, inFlightBytes/sizeBytes), Warm: b.Each / 4, Each: b.Each,
		Congestion: b.Congestion,
	}}
}

// patient sets such long time-outs of gobtl that a peer that waits for a CPU does not count as
// dead.
func patient(sys System) []string {
	if sys.Kind != "btl" {
		return nil
	}
	return append([]string{"handshake_timeout=20s", "peer_timeout=20s"}, sys.Set...)
}

// rxdMessageBytes is the largest message that ofi_rxd sends without a rendezvous.
const rxdMessageBytes = 16384

// slack is how much longer than planned a measurement may take before ofi_rxd counts as hanging.
const slack = 15 * time.Second
