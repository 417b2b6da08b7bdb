package measure

import (
	"encoding/json"
	"fmt"
	"io"
	"strings"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/plain"
	"gobtl/internal/report"
)

// IntervalRecord has the client's measurements between two instants of a round.
type IntervalRecord struct {
	Test      string `json:"test"`
	Layer     string `json:"layer"`
	SizeBytes int    `json:"size_bytes"`
	Window    int    `json:"window"`
	Load      string `json:"load,omitempty"`
	Round     int    `json:"round"` // from 0 on

	StartS float64 `json:"start_s"` // since the measurement of the round began
	EndS   float64 `json:"end_s"`

	Iterations  int64                `json:"iterations"` // round trips, or messages
	Bandwidth   float64              `json:"bandwidth_mb_per_s"`
	Rate        float64              `json:"messages_per_s"`
	Retransmits uint64               `json:"retransmits"` // by the client
	Latency     *layers.LatencyStats `json:"latency_us"`
}

// intervalsKept is the largest number of intervals in the record of a run.
const intervalsKept = 100_000

// keepInterval adds an interval to the record of the run.
func (m *measurement) keepInterval(r *IntervalRecord) {
	if len(m.intervals) == intervalsKept {
		m.intervalsLeftOut++
		return
	}
	m.intervals = append(m.intervals, r)
}

// interval makes the record of an interval of a round.
func (m *measurement) interval(iv *layers.Interval, round int) *IntervalRecord {
	messages, bytes := iv.Messages, iv.Bytes
	r := &IntervalRecord{
		Test: m.test, Layer: m.layer, SizeBytes: m.sizeBytes, Window: m.window, Round: round,
		StartS:     report.Decimals(iv.From.Seconds(), 6),
		EndS:       report.Decimals(iv.To.Seconds(), 6),
		Iterations: messages, Retransmits: iv.Resent,
	}
	if m.test == plan.TestLatLoad {
		r.Load = m.load.String()
	}
	if iv.Hist != nil {
		r.Iterations, r.Latency = iv.Hist.Count(), iv.Hist.Stats()
		messages = 2 * r.Iterations // Each round trip is two messages.
		bytes = messages * int64(m.sizeBytes)
	}
	if seconds := (iv.To - iv.From).Seconds(); seconds > 0 {
		r.Bandwidth = report.Decimals(float64(bytes)/seconds/1e6, 6)
		r.Rate = report.Decimals(float64(messages)/seconds, 3)
	}
	return r
}

// LiveTable writes intervals as lines of text while they are measured. The lines have at most 50
// columns, and their widths do not depend on the values.
type LiveTable struct {
	W     io.Writer
	title string // of the lines before
	err   error
}

// shortestS is the duration of the shortest interval that LiveTable shows, in seconds. The two
// instants of a shorter interval can have the same text. Such an interval ends many rounds.
const shortestS = .01

// Add writes a line, and before it a new heading if another measurement begins.
func (t *LiveTable) Add(r *IntervalRecord) {
	if r.StartS > 0 && r.EndS-r.StartS < shortestS {
		return
	}
	title := fmt.Sprintf("%s %s (%s)", r.Test, plan.SizeText(r.SizeBytes), r.Layer)
	if r.Latency == nil {
		title += fmt.Sprintf(", window %d", r.Window)
	}
	if r.Load != "" {
		title += ", load " + r.Load
	}
	if r.Round > 0 {
		title += fmt.Sprintf(", round %d", r.Round+1)
	}
	var b strings.Builder
	if title != t.title {
		if t.title != "" {
			b.WriteByte('\n')
		}
		t.title = title
		fmt.Fprintf(&b, "%s\n%s\n", title, liveHead(r))
	}
	b.WriteString(liveLine(r) + "\n")
	if _, err := io.WriteString(t.W, b.String()); err != nil && t.err == nil {
		t.err = err
	}
}

// Err returns the first error of writing a line of the table, or nil.
func (t *LiveTable) Err() error { return t.err }

func liveHead(r *IntervalRecord) string {
	if r.Latency != nil {
		return fmt.Sprintf("%15s %8s %7s %7s %8s", "seconds", "trips", "p50 us", "p99 us", "max us")
	}
	return fmt.Sprintf("%15s %9s %8s %7s %7s", "seconds", "messages", "MB/s", "Gbit/s", "resent")
}

func liveLine(r *IntervalRecord) string {
	line := fmt.Sprintf("%15s", fmt.Sprintf("%.2f-%.2f", r.StartS, r.EndS))
	if l := r.Latency; l != nil {
		return line + fmt.Sprintf(" %8d %7s %7s %8s", r.Iterations, microseconds(l.P50),
			microseconds(l.P99), microseconds(l.Max))
	}
	return line + fmt.Sprintf(" %9d %8.1f %7.2f %7d", r.Iterations, r.Bandwidth, r.Bandwidth*8/1000,
		r.Retransmits)
}

// Stream writes a run as JSON objects, one in each line, in the style of iperf3 --json-stream.
type Stream struct {
	w   *json.Encoder
	err error
}

// streamEvent is one line of a Stream.
type streamEvent struct {
	Event string `json:"event"`
	Data  any    `json:"data"`
}

// startRecord is the data of the event start.
type startRecord struct {
	Schema  string     `json:"schema"`
	Version string     `json:"version"`
	Command string     `json:"command"`
	Config  plan.Flags `json:"config"`
	Sides   sides      `json:"sides"`
}

// NewStream returns a stream that writes to w.
func NewStream(w io.Writer) *Stream {
	e := json.NewEncoder(w)
	e.SetEscapeHTML(false)
	return &Stream{w: e}
}

func (s *Stream) event(name string, data any) {
	if err := s.w.Encode(streamEvent{name, data}); err != nil && s.err == nil {
		s.err = err
	}
}

// Start writes a description of the run.
func (s *Stream) Start(d *Document) {
	s.event("start", startRecord{d.Schema, d.Version, d.Command, d.Config, d.Sides})
}

// Add writes an interval.
func (s *Stream) Add(r *IntervalRecord) { s.event("interval", r) }

// End writes the document, and before it the error of a failed run. The error that End returns is
// the first error of writing.
func (s *Stream) End(d *Document, failed error) error {
	if failed != nil {
		s.event("error", plain.Text(failed.Error()))
	}
	s.event("end", d)
	return s.err
}
