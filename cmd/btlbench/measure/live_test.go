package measure

import (
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// TestLiveTable holds that the lines of intervals have one width, which fits in 50 columns, and
// that each measurement has a heading.
func TestLiveTable(t *testing.T) {
	var out strings.Builder
	live := &LiveTable{W: &out}
	flow := IntervalRecord{
		Test: plan.TestBW, Layer: plan.LayerBTL, SizeBytes: 1 << 20, Window: 64, StartS: 3598,
		EndS: 3599, Iterations: 123_456_789, Bandwidth: 12345.6, Retransmits: 123_456,
	}
	ping := IntervalRecord{
		Test: plan.TestLatLoad, Layer: plan.LayerBTL, SizeBytes: 8, Window: 2, Load: "50%", EndS: 1,
		Iterations: 99_999, Latency: &layers.LatencyStats{P50: 1.234, P99: 99.99, Max: 1_234_567},
	}
	later := ping
	later.Round = 1
	rest := flow // of a round
	rest.StartS, rest.EndS = 3599, 3599.004
	for _, r := range []*IntervalRecord{&flow, &flow, &rest, &ping, &later} {
		live.Add(r)
	}
	lines := strings.Split(out.String(), "\n")
	want := []string{"bw 1M (btl), window 64", "lat_load 8 (btl), load 50%", "round 2"}
	for i, at := range []int{0, 5, 9} {
		if !strings.Contains(lines[at], want[i]) {
			t.Errorf("line %d is %q, want %q", at, lines[at], want[i])
		}
	}
	if len(lines) != 13 || live.Err() != nil {
		t.Errorf("%d lines, %v", len(lines), live.Err())
	}
	for _, line := range lines {
		if columns := utf8.RuneCountInString(line); columns > 50 {
			t.Errorf("%d columns: %s", columns, line)
		}
	}
	if len(lines[1]) != len(lines[2]) || len(lines[6]) != len(lines[7]) {
		t.Errorf("figures do not stand below their names\n%s", out.String())
	}
	if !strings.Contains(lines[2], " 98.76 ") { // 12345.6 MB/s
		t.Errorf("no 98.76 Gbit/s in %q", lines[2])
	}
}

// TestIntervalsKept holds that a long run does not take ever more memory.
func TestIntervalsKept(t *testing.T) {
	m := &measurement{}
	r := &IntervalRecord{}
	for range intervalsKept + 3 {
		m.keepInterval(r)
	}
	if len(m.intervals) != intervalsKept || m.intervalsLeftOut != 3 {
		t.Errorf("%d kept, %d left out", len(m.intervals), m.intervalsLeftOut)
	}
}

// told is the intervals of a stream that were told before.
type told chan layers.Interval

func (c told) Intervals() <-chan layers.Interval { return c }
func (c told) Release(iv *layers.Interval)       { iv.Hist.Reset() }

// TestTogether adds the intervals of streams, one of which ends before the other.
func TestTogether(t *testing.T) {
	var streams []intervals
	for stream := range 2 {
		c := make(told, 3)
		for i := range 3 - stream {
			h := layers.NewHist()
			h.Record(5000)
			c <- layers.Interval{
				From: time.Duration(i) * time.Second, To: time.Duration(i+1) * time.Second,
				Counts: layers.Counts{Messages: int64(10 + i), Bytes: 100, Resent: 1}, Hist: h,
			}
		}
		close(c)
		streams = append(streams, c)
	}
	var got []layers.Interval
	var trips []int64
	together(streams, func(iv *layers.Interval) {
		got, trips = append(got, *iv), append(trips, iv.Hist.Count())
	})
	if len(got) != 3 || got[0].Messages != 20 || got[1].Messages != 22 || got[2].Messages != 12 ||
		got[1].From != time.Second || got[2].To != 3*time.Second || got[0].Resent != 2 {
		t.Errorf("%+v", got)
	}
	if !slices.Equal(trips, []int64{2, 2, 1}) {
		t.Errorf("%d round trips", trips)
	}
}
