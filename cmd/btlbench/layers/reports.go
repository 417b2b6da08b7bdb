package layers

import (
	"time"

	"gobtl/internal/mono"
)

// Interval has the measurements of a side between two instants of a round.
type Interval struct {
	From, To time.Duration // since the measurement began
	Counts
	Hist *Hist // round trips; nil in tests of a flow
}

// Counts are totals since the beginning of a round, or differences of totals.
type Counts struct {
	Messages, Bytes int64
	Resent          uint64 // packets that this side sent again
}

// The method since returns the difference from earlier totals.
func (c Counts) since(earlier Counts) Counts {
	return Counts{
		c.Messages - earlier.Messages, c.Bytes - earlier.Bytes, c.Resent - earlier.Resent,
	}
}

// Add adds the counts of another stream.
func (c *Counts) Add(o Counts) {
	c.Messages += o.Messages
	c.Bytes += o.Bytes
	c.Resent += o.Resent
}

// Reports passes the intervals of a round from its hot loop to another goroutine. The hot loop
// compares the time of its latest clock reading with the end of the interval. The hot loop never
// waits for the reader, and if the reader is late, intervals become longer.
type Reports struct {
	every time.Duration
	out   chan Interval
	spare chan *Hist // empty histograms; nil in tests of a flow

	// The fields below belong to the hot loop.
	next, begin, from mono.Time
	last              Counts
	total             func() Counts
	hist              *Hist
}

// reportsAhead is the number of intervals that may wait for the reader.
const reportsAhead = 16

// NewReports returns the reports of one round. A latency test has a histogram for each interval.
func NewReports(every time.Duration, latency bool) *Reports {
	p := &Reports{every: every, out: make(chan Interval, reportsAhead), next: mono.Never}
	if latency {
		p.hist, p.spare = NewHist(), make(chan *Hist, 2)
		for range cap(p.spare) {
			p.spare <- NewHist()
		}
	}
	return p
}

// Intervals delivers the intervals until Close is called.
func (p *Reports) Intervals() <-chan Interval { return p.out }

// Release returns the histogram of an interval for reuse after the reader has used it.
func (p *Reports) Release(iv *Interval) {
	if iv.Hist != nil {
		iv.Hist.Reset()
		p.spare <- iv.Hist // It has come from there, so there is room.
	}
}

// Close ends Intervals. The hot loop must have ended.
func (p *Reports) Close() { close(p.out) }

// beginReports begins the first interval, with a function total that reads the counts.
func (r *Round) beginReports(now mono.Time, total func() Counts) {
	p := r.Reports
	if p == nil {
		return
	}
	if p.hist != nil {
		p.hist.Reset()
	}
	p.begin, p.from, p.next = now, now, now.Add(p.every)
	p.last, p.total = total(), total
}

// reportDue reports whether the present interval has ended.
func (r *Round) reportDue(now mono.Time) bool { return r.Reports != nil && now >= r.Reports.next }

// The method report passes an interval that ends now to the reader, if there is room.
func (r *Round) report(now mono.Time) {
	p := r.Reports
	for p.next <= now {
		p.next = p.next.Add(p.every)
	}
	p.pass(now)
}

// pass passes the measurements since the previous interval to the reader, if there is room.
func (p *Reports) pass(now mono.Time) {
	if len(p.out) == cap(p.out) || p.hist != nil && len(p.spare) == 0 {
		return
	}
	total := p.total()
	iv := Interval{From: p.from.Sub(p.begin), To: now.Sub(p.begin), Counts: total.since(p.last)}
	if p.hist != nil {
		iv.Hist = p.hist
		p.hist = <-p.spare
	}
	p.from, p.last = now, total
	p.out <- iv
}

// endReports passes the last interval to the reader, which may be a short one.
func (r *Round) endReports(now mono.Time) {
	p := r.Reports
	if p == nil || p.total == nil {
		return
	}
	if p.total().Messages > p.last.Messages || p.hist != nil && p.hist.Count() > 0 {
		p.pass(now)
	}
	p.next, p.total = mono.Never, nil
}

// record adds the time of a round trip.
func (r *Round) record(roundTripNs int64) {
	r.Meter.Hist.Record(roundTripNs)
	if r.Reports != nil {
		r.Reports.hist.Record(roundTripNs)
	}
}
