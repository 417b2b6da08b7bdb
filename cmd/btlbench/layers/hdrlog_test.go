package layers

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// TestHistLog reads back what a log has: its percentiles are those of the report.
func TestHistLog(t *testing.T) {
	var log bytes.Buffer
	at := time.UnixMilli(1_700_000_000_000)
	l := NewHistLog(&log, at)
	h := NewHist()
	for i := range int64(20_000) {
		h.Record(2000 + 7*i)
	}
	h.Record(2 * histMaxNs)
	l.Add("lat/btl/8", at, at.Add(1500*time.Millisecond), h)
	l.Add("lat/btl/64", at.Add(2*time.Second), at.Add(3*time.Second), h)
	if l.Err() != nil || !strings.Contains(log.String(), "#[StartTime: 1700000000 ") {
		t.Errorf("%v\n%s", l.Err(), log.String())
	}
	r := hdrhistogram.NewHistogramLogReader(&log)
	for _, want := range []struct {
		tag               string
		startMs, lengthMs int64
	}{{"lat/btl/8", 0, 1500}, {"lat/btl/64", 2000, 1000}} {
		got, err := r.NextIntervalHistogram()
		if err != nil || got == nil {
			t.Fatalf("%v, %v", got, err)
		}
		if got.Tag() != want.tag || got.TotalCount() != h.Count() ||
			got.StartTimeMs() != at.UnixMilli()+want.startMs ||
			got.EndTimeMs()-got.StartTimeMs() != want.lengthMs {
			t.Errorf("%q: %d values from %d to %d ms", got.Tag(), got.TotalCount(), got.StartTimeMs(),
				got.EndTimeMs())
		}
		stats := h.Stats()
		for percentile, us := range map[float64]float64{
			50: stats.P50, 90: stats.P90, 99: stats.P99, 99.9: stats.P999, 99.99: stats.P9999,
		} {
			ns := float64(got.ValueAtPercentile(percentile))
			if ns < 0.997e3*us || ns > 1.003e3*us {
				t.Errorf("p%v is %v ns in the log, %v us in the report", percentile, ns, us)
			}
		}
	}
}

// fullDisk has no room for one write, and then for all.
type fullDisk struct {
	left int
	told bool
}

var errFull = errors.New("disk full")

func (d *fullDisk) Write(b []byte) (int, error) {
	if d.left -= len(b); d.left < 0 && !d.told {
		d.told = true
		return 0, errFull
	}
	return len(b), nil
}

// TestHistLogFull holds that a line that could not be written is told.
func TestHistLogFull(t *testing.T) {
	for _, left := range []int{0, 300} {
		l := NewHistLog(&fullDisk{left: left}, time.Now())
		l.Add("lat", time.Now(), time.Now(), NewHist())
		l.Add("lat", time.Now(), time.Now(), NewHist())
		if !errors.Is(l.Err(), errFull) {
			t.Errorf("%d bytes of room: %v", left, l.Err())
		}
	}
}
