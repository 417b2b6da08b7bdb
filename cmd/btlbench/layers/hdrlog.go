package layers

import (
	"io"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// HistLog writes histograms to a log in the format of HdrHistogram. The values are half round trips
// in nanoseconds, as in the report.
type HistLog struct {
	w   *hdrhistogram.HistogramLogWriter
	err error
}

// NewHistLog writes the head of a log that begins now.
func NewHistLog(to io.Writer, now time.Time) *HistLog {
	w := hdrhistogram.NewHistogramLogWriter(to)
	l := &HistLog{w: w}
	for _, write := range []func() error{
		w.OutputLogFormatVersion,
		func() error { return w.OutputComment("[half round trips in ns; Interval_Max in ms]") },
		func() error { return w.OutputStartTime(now.UnixMilli()) },
		w.OutputLegend,
	} {
		if l.err == nil {
			l.err = write()
		}
	}
	return l
}

// Add writes the histogram of the time between two instants under a tag, which has no comma and no
// space.
func (l *HistLog) Add(tag string, from, to time.Time, h *Hist) {
	half := h.half()
	half.SetTag(tag)
	half.SetStartTimeMs(from.UnixMilli())
	half.SetEndTimeMs(to.UnixMilli())
	if l.err == nil {
		l.err = l.w.OutputIntervalHistogram(half)
	}
}

// Err returns the first error of writing to the log, or nil.
func (l *HistLog) Err() error { return l.err }

// half returns a histogram with half of each value.
func (h *Hist) half() *hdrhistogram.Histogram {
	half := hdrhistogram.New(1, histMaxNs, 3)
	for _, bar := range h.h.Distribution() {
		if bar.Count > 0 {
			// The recorded value is the middle of the histogram's bar, as for all percentiles of
			// this package.
			_ = half.RecordValues(max(1, (bar.From+bar.To)/4), bar.Count) // In range, as twice of it was.
		}
	}
	return half
}
