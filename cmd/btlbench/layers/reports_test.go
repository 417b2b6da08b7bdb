package layers

import (
	"testing"
	"time"

	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/mono"
)

// TestReports drives the reports of a round by a given clock.
func TestReports(t *testing.T) {
	var counted Counts
	r := &Round{Spec: plan.Spec{Test: plan.TestBW}, Reports: NewReports(time.Second, false)}
	at := func(d time.Duration) mono.Time { return 1000 + mono.Time(d) }
	if r.reportDue(at(time.Hour)) {
		t.Error("a report is due before the measurement begins")
	}
	counted.Messages = 7 // of the warm-up
	r.beginReports(at(0), func() Counts { return counted })
	for now := time.Duration(0); now < 3500*time.Millisecond; now += 100 * time.Millisecond {
		if r.reportDue(at(now)) {
			r.report(at(now))
		}
		counted.Messages++
		counted.Bytes += 100
		counted.Resent += 2
	}
	r.endReports(at(3500 * time.Millisecond))
	r.endReports(at(4 * time.Second)) // There is nothing more to tell.
	r.Reports.Close()
	var from time.Duration
	for iv := range r.Reports.Intervals() {
		want := min(time.Second, 3500*time.Millisecond-from)
		n := int64(want / (100 * time.Millisecond))
		if iv.From != from || iv.To-iv.From != want ||
			iv.Counts != (Counts{n, 100 * n, uint64(2 * n)}) {
			t.Errorf("%+v, want %d messages in %v from %v on", iv, n, want, from)
		}
		from = iv.To
	}
	if from != 3500*time.Millisecond {
		t.Errorf("the last interval ends at %v", from)
	}
}

// TestReportsSlowReader has nobody take the intervals for a while: the hot loop goes on, and the
// next interval has what was measured meanwhile.
func TestReportsSlowReader(t *testing.T) {
	r := &Round{Meter: Meter{Hist: NewHist()}, Reports: NewReports(time.Second, true)}
	r.record(5) // in the warm-up
	r.Meter.Hist.Reset()
	r.beginReports(0, func() Counts { return Counts{} })
	for i := range 10 {
		r.record(1000)
		r.report(mono.Time(i+1) * 1e9)
	}
	first, second := <-r.Reports.Intervals(), <-r.Reports.Intervals()
	if first.Hist.Count() != 1 || second.Hist.Count() != 1 || len(r.Reports.Intervals()) != 0 {
		t.Errorf("%d and %d round trips, %d more intervals", first.Hist.Count(), second.Hist.Count(),
			len(r.Reports.Intervals()))
	}
	r.Reports.Release(&first)
	r.endReports(11e9)
	if last := <-r.Reports.Intervals(); last.From != 2*time.Second || last.Hist.Count() != 8 {
		t.Errorf("%+v with %d round trips, want 8 since the second second", last, last.Hist.Count())
	}
	if n := r.Meter.Hist.Count(); n != 10 {
		t.Errorf("the round has %d round trips, want 10", n)
	}
}
