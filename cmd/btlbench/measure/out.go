package measure

import (
	"encoding/csv"
	"encoding/json"
	"fmt"
	"io"
	"runtime"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
)

// The constants below are the formats of a report.
const (
	formatText    = "text"
	FormatJSON    = "json"
	formatCSV     = "csv"
	formatGobench = "gobench"
)

// Write writes the report in the given format.
func Write(w io.Writer, format string, d *Document) error {
	switch format {
	case FormatJSON:
		return WriteJSON(w, d)
	case formatCSV:
		return writeCSV(w, d)
	case formatGobench:
		return writeGobench(w, d)
	}
	return writeTable(w, d)
}

// WriteJSON writes a value as one document.
func WriteJSON(w io.Writer, v any) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	e.SetEscapeHTML(false)
	return e.Encode(v)
}

// csvColumns are the columns of the CSV format, in order.
var csvColumns = []struct {
	name  string
	value func(r *RunRecord) string
}{
	{"test", func(r *RunRecord) string { return r.Test }},
	{"layer", func(r *RunRecord) string { return r.Layer }},
	{"provider", func(r *RunRecord) string { return r.Provider }},
	{"profile", func(r *RunRecord) string { return r.Profile }},
	{"size_bytes", func(r *RunRecord) string { return strconv.Itoa(r.SizeBytes) }},
	{"iterations", func(r *RunRecord) string { return strconv.FormatInt(r.Iterations, 10) }},
	{"latency_us_min", latencyColumn(func(l *layers.LatencyStats) float64 { return l.Min })},
	{"latency_us_p50", latencyColumn(func(l *layers.LatencyStats) float64 { return l.P50 })},
	{"latency_us_p90", latencyColumn(func(l *layers.LatencyStats) float64 { return l.P90 })},
	{"latency_us_p99", latencyColumn(func(l *layers.LatencyStats) float64 { return l.P99 })},
	{"latency_us_p999", latencyColumn(func(l *layers.LatencyStats) float64 { return l.P999 })},
	{"latency_us_max", latencyColumn(func(l *layers.LatencyStats) float64 { return l.Max })},
	{"latency_us_mean", latencyColumn(func(l *layers.LatencyStats) float64 { return l.Mean })},
	{"bandwidth_mb_per_s", func(r *RunRecord) string { return number(r.Bandwidth) }},
	{"messages_per_s", func(r *RunRecord) string { return number(r.Rate) }},
	{"ratio_to_raw", func(r *RunRecord) string { return optional(r.RatioToRaw) }},
	{"segments_sent", func(r *RunRecord) string { return strconv.FormatUint(r.SegmentsSent, 10) }},
	{"retransmits", func(r *RunRecord) string { return strconv.FormatUint(r.Retransmits, 10) }},
	{"duplicates", func(r *RunRecord) string { return strconv.FormatUint(r.Duplicates, 10) }},
	{"lost_datagrams", func(r *RunRecord) string { return strconv.FormatInt(r.LostDatagrams, 10) }},
	{"verified_bytes", func(r *RunRecord) string { return strconv.FormatInt(r.VerifiedBytes, 10) }},
	{"corrupt_bytes", func(r *RunRecord) string { return strconv.FormatInt(r.CorruptBytes, 10) }},
	{"missing_messages", func(r *RunRecord) string {
		return strconv.FormatInt(r.MissingMessages, 10)
	}},
	{"duplicated_messages", func(r *RunRecord) string {
		return strconv.FormatInt(r.DuplicatedMessages, 10)
	}},
	{"cpu_percent_client", func(r *RunRecord) string { return number(r.CPUPercent.Client) }},
	{"cpu_percent_server", func(r *RunRecord) string { return number(r.CPUPercent.Server) }},
	{"window", func(r *RunRecord) string { return strconv.Itoa(r.Window) }},
	{"ns_per_message", func(r *RunRecord) string {
		if r.Latency != nil {
			return ""
		}
		return number(r.NsPerMessage)
	}},
	{"load", func(r *RunRecord) string { return r.Load }},
	{"load_mb_per_s", func(r *RunRecord) string {
		if r.Load == "" {
			return ""
		}
		return number(r.LoadBandwidth)
	}},
	{"ratio_to_idle", func(r *RunRecord) string { return optional(r.RatioToIdle) }},
	{"retransmit_ratio", func(r *RunRecord) string { return number(r.RetransmitRatio) }},
	{"garbage_collections_client", func(r *RunRecord) string {
		return strconv.FormatUint(r.GarbageCollections.Client, 10)
	}},
	{"garbage_collections_server", func(r *RunRecord) string {
		return strconv.FormatUint(r.GarbageCollections.Server, 10)
	}},
	{"latency_us_p9999", latencyColumn(func(l *layers.LatencyStats) float64 { return l.P9999 })},
	{"streams", func(r *RunRecord) string { return strconv.Itoa(r.Streams) }},
}

// optional is a value that may be missing.
func optional(x *float64) string {
	if x == nil {
		return ""
	}
	return number(*x)
}

// latencyColumn is a column that is empty for tests of a flow.
func latencyColumn(figure func(*layers.LatencyStats) float64) func(*RunRecord) string {
	return func(r *RunRecord) string {
		if r.Latency == nil {
			return ""
		}
		return number(figure(r.Latency))
	}
}

func number(x float64) string { return strconv.FormatFloat(x, 'f', -1, 64) }

// writeCSV writes a header and a line per run.
func writeCSV(w io.Writer, d *Document) error {
	c := csv.NewWriter(w)
	var line []string
	for _, column := range csvColumns {
		line = append(line, column.name)
	}
	if err := c.Write(line); err != nil {
		return err
	}
	for i := range d.Runs {
		line = line[:0]
		for _, column := range csvColumns {
			line = append(line, column.value(&d.Runs[i]))
		}
		if err := c.Write(line); err != nil {
			return err
		}
	}
	c.Flush()
	return c.Error()
}

// writeGobench writes the rounds as results of Go benchmarks, one in each line, for benchstat. The
// value ns/op is the time per message, which is half a round trip in latency tests.
func writeGobench(w io.Writer, d *Document) error {
	host := &d.Sides.Client.Host
	_, err := fmt.Fprintf(w, "goos: %s\ngoarch: %s\npkg: gobtl/cmd/btlbench\ncpu: %s\n",
		host.OS, host.Arch, host.CPUModel)
	for i := range d.Runs {
		r := &d.Runs[i]
		name := gobenchName(r)
		for j := range r.Rounds {
			if err != nil {
				return err
			}
			_, err = fmt.Fprintln(w, gobenchLine(name, &r.Rounds[j]))
		}
	}
	return err
}

// gobenchName is the name of the benchmark, whose words after a slash are keys for benchstat.
func gobenchName(r *RunRecord) string {
	var camel strings.Builder
	for word := range strings.SplitSeq(r.Test, "_") {
		camel.WriteString(strings.ToUpper(word[:1]) + word[1:])
	}
	provider := strings.ReplaceAll(r.Provider, "/", "_")
	name := fmt.Sprintf("Benchmark%s/provider=%s/layer=%s/size=%d", camel.String(), provider, r.Layer,
		r.SizeBytes)
	switch r.Test {
	case plan.TestRate:
		name += "/window=" + strconv.Itoa(r.Window)
	case plan.TestLatLoad:
		name += fmt.Sprintf("/window=%d/load=%s", r.Window, strings.TrimSuffix(r.Load, "%"))
	}
	if n := runtime.GOMAXPROCS(0); n > 1 {
		name += "-" + strconv.Itoa(n)
	}
	return name
}

func gobenchLine(name string, r *roundRecord) string {
	line := fmt.Sprintf("%s\t%d\t%.1f ns/op", name, r.Iterations, 1e9/r.Rate)
	if r.Bandwidth > 0 {
		line += fmt.Sprintf("\t%.2f MB/s", r.Bandwidth)
	}
	if l := r.Latency; l != nil {
		line += fmt.Sprintf("\t%.0f p50-ns\t%.0f p99-ns\t%.0f p99.9-ns", l.P50*1e3, l.P99*1e3,
			l.P999*1e3)
	}
	return line
}
