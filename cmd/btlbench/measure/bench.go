package measure

import (
	"context"
	"errors"
	"fmt"
	"io"
	"time"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/session"
	"gobtl/internal/report"
)

// Bench runs a plan of tests over an open session and fills the report. After an error or an
// interruption, the report has the measurements until then.
type Bench struct {
	Stderr  io.Writer // for the progress bar, if it is a terminal
	Session *session.Group
	Flags   *plan.Flags
	bar     *report.Progress
	Doc     *Document
	// Live, if not nil, is called for each interval while it is measured, on another goroutine than
	// that of Run.
	Live func(*IntervalRecord)
	// Begin, if not nil, is called with the extent of all measurements before the first one.
	Begin func(Extent)
	// Log, if not nil, receives the round trips of each interval, or of each round without
	// --interval.
	Log *layers.HistLog

	runRound func(*plan.Spec, []session.Meters) ([]*session.Outcome, error) // on the session
}

// combination is one test, size and window, with variants that are measured alternately.
type combination struct {
	test              string
	sizeBytes, window int
	variants          []variant
	measured          map[variant]*measurement // while it is being measured
	runs              []RunRecord              // and then
}

// variant is a layer that can run the test, or in lat_load one load on that layer.
type variant struct {
	layer string
	load  plan.Load
}

// String returns the name of the variant as text.
func (v variant) String() string {
	if v.load == plan.LoadIdle {
		return v.layer
	}
	return v.layer + " load " + v.load.String()
}

// NewDocument returns a report in which nothing has been measured yet.
func NewDocument(command string, f *plan.Flags) *Document {
	return &Document{
		Schema: Schema, Version: report.Version(), StartedAt: time.Now().UTC().Truncate(time.Millisecond),
		Command: command, Config: *f, Runs: []RunRecord{}, Skipped: []skipRecord{},
	}
}

// Describe writes the properties of both sides into the report. Describe must be called before Run.
func (b *Bench) Describe() {
	first := b.Session.First()
	b.Doc.Sides.Client, b.Doc.Sides.Server = first.Side.Facts(), first.Remote
	b.Doc.Config.MTU = plan.Bytes(first.Side.Cfg.MTUBytes)
}

// Run performs all measurements.
func (b *Bench) Run(ctx context.Context) error {
	begin := time.Now()
	defer func() { b.Doc.ElapsedS = report.Decimals(time.Since(begin).Seconds(), 3) }()
	todo := b.plan()
	total := 0
	for i := range todo {
		total += len(todo[i].variants) * b.Flags.RoundCount()
	}
	if b.Begin != nil && len(todo) > 0 {
		b.Begin(b.extent(todo))
	}
	bar := b.Stderr
	if b.Live != nil {
		bar = io.Discard // Its place on the terminal is the intervals'.
	}
	b.bar = report.NewProgress(bar, total)
	defer b.bar.Finish()
	b.runRound = b.Session.RunRound
	if err := b.measureAll(ctx, todo); err != nil {
		return err
	}
	if len(todo) == 0 {
		return errors.New("nothing to measure: " + b.Doc.Skipped[0].Reason)
	}
	return b.Doc.Verdict()
}

// measureAll measures the sizes one after the other, and reports in the order of the plan.
func (b *Bench) measureAll(ctx context.Context, todo []combination) (err error) {
	for _, group := range bySize(todo) {
		err = b.measure(ctx, group)
		for _, c := range group {
			b.report(c)
		}
		if err != nil {
			break
		}
	}
	for i := range todo {
		b.Doc.Runs = append(b.Doc.Runs, todo[i].runs...)
	}
	return err
}

// The method plan lists the measurements, and records those that are not possible.
func (b *Bench) plan() []combination {
	var list []combination
	offers := b.Session.Offers()
	for _, test := range b.Flags.Test {
		for _, sizeBytes := range b.Flags.Sizes(test) {
			var all []variant
			for _, name := range b.Flags.Layers() {
				if reason := skipReasonOf(offers, name, test, sizeBytes); reason != "" {
					b.Doc.Skipped = append(b.Doc.Skipped, skipRecord{
						Test: test, Layer: name, SizeBytes: sizeBytes, Reason: reason,
					})
					continue
				}
				all = append(all, variants(b.Flags, test, name)...)
			}
			if len(all) == 0 {
				continue
			}
			for _, window := range b.Flags.Windows(test, sizeBytes) {
				list = append(list, combination{
					test: test, sizeBytes: sizeBytes, window: window, variants: all,
				})
			}
		}
	}
	return list
}

// variants lists the variants of a test on a layer, beginning with the reference for the others.
func variants(f *plan.Flags, test, layer string) []variant {
	list := []variant{{layer: layer}}
	if test == plan.TestLatLoad {
		for _, l := range f.Load {
			list = append(list, variant{layer, l})
		}
	}
	return list
}

// skipReasonOf is layers.SkipReason for the offers of both sides.
func skipReasonOf(offers []layers.Offer, layer, test string, sizeBytes int) string {
	for i := range offers {
		if offers[i].Layer != layer {
			continue
		}
		if reason := layers.SkipReason(&offers[i], test, sizeBytes); reason != "" {
			return reason
		}
	}
	return ""
}

// bySize groups the measurements by size, in the order in which the sizes first occur. Groups are
// measured one after the other, so that memory is needed only for the histograms of one size.
func bySize(todo []combination) (groups [][]*combination) {
	of := make(map[int]int)
	for i := range todo {
		c := &todo[i]
		at, ok := of[c.sizeBytes]
		if !ok {
			at = len(groups)
			of[c.sizeBytes] = at
			groups = append(groups, nil)
		}
		groups[at] = append(groups[at], c)
	}
	return groups
}

// measure runs all rounds of a group. Each round measures every test and variant of the group, so
// that they can be compared although the speed of the machine varies. The order of the measurements
// rotates from round to round.
func (b *Bench) measure(ctx context.Context, group []*combination) error {
	for _, c := range group {
		c.measured = make(map[variant]*measurement)
		for _, v := range c.variants {
			c.measured[v] = newMeasurement(c, v)
		}
	}
	scratch := make([]*layers.Hist, b.Flags.Streams())
	for i := range scratch {
		scratch[i] = layers.NewHist()
	}
	rounds := b.Flags.RoundCount()
	for i := range rounds {
		for turn := range group {
			c := group[(turn+i)%len(group)]
			for turn := range c.variants {
				v := c.variants[(turn+i)%len(c.variants)]
				if ctx.Err() != nil {
					return context.Cause(ctx)
				}
				b.bar.Begin(fmt.Sprintf("%s %s %v", c.test, plan.SizeText(c.sizeBytes), v))
				m := c.measured[v]
				all, err := b.watchRound(b.spec(c, v, i, rounds), m, i, scratch)
				if err != nil {
					return err
				}
				m.add(all)
				b.bar.Step()
			}
		}
	}
	return nil
}

// watchRound runs a round, and passes its intervals to the log and the user. The argument scratch
// of watchRound is a histogram for the round trips.
func (b *Bench) watchRound(s *plan.Spec, m *measurement, round int, scratch []*layers.Hist,
) ([]*session.Outcome, error) {
	meters := make([]session.Meters, len(scratch))
	if m.merged != nil {
		for i, h := range scratch {
			meters[i].Hist = h
		}
	}
	if b.Flags.Interval == 0 {
		all, err := b.runRound(s, meters)
		if err == nil {
			b.logTrips(m, all)
		}
		return all, err
	}
	var sources []intervals
	for i := range meters {
		meters[i].Reports = layers.NewReports(b.Flags.Interval.Time(), m.merged != nil)
		sources = append(sources, meters[i].Reports)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		together(sources, func(iv *layers.Interval) {
			b.log(m, iv.To-iv.From, iv.Hist)
			r := m.interval(iv, round)
			m.keepInterval(r)
			if b.Live != nil {
				b.Live(r)
			}
		})
	}()
	all, err := b.runRound(s, meters)
	for i := range meters {
		meters[i].Reports.Close()
	}
	<-done
	return all, err
}

// logTrips writes the round trips of a round to the histogram log.
func (b *Bench) logTrips(m *measurement, streams []*session.Outcome) {
	if b.Log == nil || m.merged == nil {
		return
	}
	sum := layers.NewHist()
	took := time.Duration(0)
	for _, o := range streams {
		sum.Merge(o.Meter.Hist)
		took = max(took, o.Meter.Elapsed)
	}
	b.log(m, took, sum)
}

// log writes the measurements until now to the log.
func (b *Bench) log(m *measurement, took time.Duration, h *layers.Hist) {
	if b.Log == nil || h == nil || h.Count() == 0 {
		return
	}
	tag := fmt.Sprintf("%s/%s/%s", m.test, m.layer, plan.SizeText(m.sizeBytes))
	if m.test == plan.TestLatLoad {
		tag += "/" + m.load.String()
	}
	now := time.Now()
	b.Log.Add(tag, now.Add(-took), now, h)
}

// intervals gives the intervals of a stream, and is implemented by *layers.Reports.
type intervals interface {
	Intervals() <-chan layers.Interval
	Release(*layers.Interval)
}

// together combines the intervals of all streams, with the sums of their counts and the mean of
// their instants.
func together(streams []intervals, tell func(*layers.Interval)) {
	var sum *layers.Hist
	for {
		var all layers.Interval
		n := time.Duration(0)
		for _, p := range streams {
			iv, ok := <-p.Intervals()
			if !ok {
				continue
			}
			if iv.Hist != nil {
				if sum == nil {
					sum = layers.NewHist()
				}
				sum.Merge(iv.Hist)
			}
			all.From, all.To, n = all.From+iv.From, all.To+iv.To, n+1
			all.Counts.Add(iv.Counts)
			p.Release(&iv)
		}
		if n == 0 {
			return
		}
		all.From, all.To, all.Hist = all.From/n, all.To/n, sum
		tell(&all)
		if sum != nil {
			sum.Reset()
		}
	}
}

// spec returns the spec of round i of a measurement.
func (b *Bench) spec(c *combination, v variant, i, rounds int) *plan.Spec {
	f := b.Flags
	part := f.Measured().Split(i, rounds)
	s := &plan.Spec{
		Test: c.test, Layer: v.layer, SizeBytes: c.sizeBytes, Window: c.window, Verify: f.Verify,
		WarmupMessages: f.Warmup.Messages, WarmupNs: int64(f.Warmup.Time),
		Messages: part.Messages, DurationNs: int64(part.Time),
		PeerTimeoutNs: int64(f.PeerTimeout),
	}
	if c.test == plan.TestLat || c.test == plan.TestPutLat || c.test == plan.TestNotice {
		s.GapNs = int64(f.Gap)
	}
	if plan.HasPlaces(c.test) {
		s.Places = min(f.Places, c.window)
	}
	if plan.IsStream(c.test) {
		s.BytesPerNs = f.Rate.BytesPerNs()
	}
	if c.test == plan.TestLatLoad {
		s.Load, s.LoadBytes = v.load, int(f.LoadSize)
	}
	return s
}

// The method report makes the records of a combination's measurements, if there are any.
func (b *Bench) report(c *combination) {
	for _, v := range c.variants {
		m := c.measured[v]
		if len(m.rounds) == 0 {
			continue
		}
		facts := b.Doc.Sides.Client.Layers[v.layer]
		r := m.record(b.Doc.Sides.Client.Provider.Provider, facts)
		if v.layer != plan.LayerRaw {
			r.RatioToRaw = m.ratioTo(c.measured[variant{layer: plan.LayerRaw}])
		}
		if v.load != plan.LoadIdle {
			r.RatioToIdle = m.ratioTo(c.measured[variant{layer: v.layer}])
		}
		for i := range c.runs {
			base := &c.runs[i]
			if r.RatioToRaw != nil && base.Layer == plan.LayerRaw {
				r.shownToRaw = shownRatio(&r, base)
			}
			if r.RatioToIdle != nil && base.Layer == v.layer && base.Load == plan.LoadIdle.String() {
				r.shownToIdle = shownRatio(&r, base)
			}
		}
		c.runs = append(c.runs, r)
	}
	c.measured = nil
}

// errVerify means that the transport has altered, lost or duplicated a message.
var errVerify = errors.New("verification failed")

// Verdict returns an error if a message of the transport was altered, lost or duplicated. For the
// bare fabric, Verdict checks only that bytes are unaltered.
func (d *Document) Verdict() error {
	for i := range d.Runs {
		r := &d.Runs[i]
		missing, doubled := r.MissingMessages, r.DuplicatedMessages
		if r.Layer == plan.LayerRaw {
			missing, doubled = 0, 0
		}
		if r.CorruptBytes != 0 || missing != 0 || doubled != 0 {
			return fmt.Errorf("%w in %s %s (%s): %d bytes corrupt, %d messages missing, %d delivered "+
				"again", errVerify, r.Test, plan.SizeText(r.SizeBytes), r.Layer, r.CorruptBytes, missing,
				doubled)
		}
	}
	return nil
}
