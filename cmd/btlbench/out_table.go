package main

import (
	"fmt"
	"io"
	"slices"
	"strconv"
	"strings"

	"github.com/jedib0t/go-pretty/v6/table"
	"github.com/jedib0t/go-pretty/v6/text"
)

// newTable returns a table in the program's one style: no frame, headers as they are written.
func newTable(w io.Writer) table.Writer {
	t := table.NewWriter()
	t.SetOutputMirror(w)
	style := table.StyleLight
	style.Options = table.OptionsNoBordersAndSeparators
	style.Options.SeparateHeader = true
	style.Format.Header = text.FormatDefault
	style.Title.Align = text.AlignLeft
	style.Box.PaddingLeft, style.Box.PaddingRight = "", "  "
	t.SetStyle(style)
	t.SuppressTrailingSpaces()
	return t
}

// writeTable writes the report for people: a line on each side, then a table per test.
func writeTable(w io.Writer, d *document) error {
	client, server := &d.Sides.Client, &d.Sides.Server
	p := &client.Provider
	head := fmt.Sprintf("%s %s, domain %s; %s, Linux %s, %s; pinned to CPU %s and %s\n",
		p.Provider, p.Version, p.Domain, client.Host.CPUModel, client.Host.Kernel, client.Host.Go,
		cpuText(client.Host.PinnedCPU), cpuText(server.Host.PinnedCPU))
	for _, name := range []string{layerRaw, layerBTL} {
		if f, ok := client.Layers[name]; ok {
			head += layerLine(name, &f)
		}
	}
	if d.Config.Impair != "" {
		head += "faults on both sides: " + d.Config.Impair + "\n"
	}
	if _, err := io.WriteString(w, head); err != nil {
		return err
	}
	for _, test := range d.Config.Test {
		runs := slices.DeleteFunc(slices.Clone(d.Runs), func(r runRecord) bool { return r.Test != test })
		if len(runs) > 0 {
			if _, err := fmt.Fprintln(w); err != nil {
				return err
			}
			writeTestTable(w, test, runs, d)
		}
	}
	return writeSkipped(w, d.Skipped)
}

// writeSkipped writes what was left out, a line for each test and layer and reason.
func writeSkipped(w io.Writer, skipped []skipRecord) error {
	for len(skipped) > 0 {
		first := skipped[0]
		var sizes []string
		for j := range skipped {
			s := &skipped[j]
			if s.Test == first.Test && s.Layer == first.Layer && s.Reason == first.Reason {
				sizes = append(sizes, sizeText(s.SizeBytes))
			}
		}
		if _, err := fmt.Fprintf(w, "left out: %s (%s) of %s: %s\n", first.Test, first.Layer,
			strings.Join(sizes, ", "), first.Reason); err != nil {
			return err
		}
		skipped = slices.DeleteFunc(slices.Clone(skipped), func(s skipRecord) bool {
			return s.Test == first.Test && s.Layer == first.Layer && s.Reason == first.Reason
		})
	}
	return nil
}

func cpuText(cpu int) string {
	if cpu < 0 {
		return "none"
	}
	return strconv.Itoa(cpu)
}

func layerLine(name string, f *layerFacts) string {
	line := fmt.Sprintf("%s: datagrams of %d B, %d surely held by the receiver", name, f.MTUBytes,
		f.RecvCapacity)
	if f.RecvBufferBytes > 0 {
		line += fmt.Sprintf(" (buffer %d KiB)", f.RecvBufferBytes>>10)
	}
	if f.Profile != "" {
		line += ", profile " + f.Profile
	}
	return line + "\n"
}

var testTitles = map[string]string{
	testLat:     "Latency: ping-pong, half round trips in us",
	testBW:      "Bandwidth: one direction",
	testBiBW:    "Bandwidth: both directions together",
	testRate:    "Message rate: windows, each answered as a whole before the next",
	testLatLoad: "Latency under load: ping-pong beside a stream of %s messages, half round trips in us",
	testPutLat:  "Put latency: ping-pong through memory, half round trips in us",
	testPutBW:   "Put bandwidth: one direction",
}

// column is one of a test's table.
type column struct {
	name  string
	value func(r *runRecord) string
	left  bool // aligned left
}

// columns are those of a test's table. Those that would be empty are left out.
func columns(test string, runs []runRecord, verified bool) []column {
	some := func(has func(*runRecord) bool) bool {
		return slices.ContainsFunc(runs, func(r runRecord) bool { return has(&r) })
	}
	list := []column{{name: "size", value: func(r *runRecord) string { return sizeText(r.SizeBytes) }}}
	list = append(list, column{name: "layer", left: true, value: func(r *runRecord) string {
		return r.Layer
	}})
	if test == testRate || test == testLatLoad {
		list = append(list, count("window", func(r *runRecord) int64 { return int64(r.Window) }))
	}
	if isLatency(test) {
		list = append(list, latencyColumns(test)...)
	} else {
		list = append(list, flowColumns(test)...)
	}
	if some(func(r *runRecord) bool { return r.SegmentsSent > 0 }) {
		list = append(list, column{name: "resent", value: resentText},
			count("dup", func(r *runRecord) int64 { return int64(r.Duplicates) }))
	}
	if some(func(r *runRecord) bool { return r.LostDatagrams != 0 }) {
		list = append(list, count("lost", func(r *runRecord) int64 { return r.LostDatagrams }))
	}
	list = append(list, column{name: "CPU % c/s", value: func(r *runRecord) string {
		return fmt.Sprintf("%.0f/%.0f", r.CPUPercent.Client, r.CPUPercent.Server)
	}})
	if some(func(r *runRecord) bool { return r.GarbageCollections.Client+r.GarbageCollections.Server > 0 }) {
		list = append(list, column{name: "GC c/s", value: func(r *runRecord) string {
			return fmt.Sprintf("%d/%d", r.GarbageCollections.Client, r.GarbageCollections.Server)
		}})
	}
	if verified {
		list = append(list, count("verified", func(r *runRecord) int64 { return r.VerifiedBytes }),
			count("corrupt", func(r *runRecord) int64 { return r.CorruptBytes }))
	}
	for _, ratio := range []struct {
		name string
		of   func(*runRecord) *float64
	}{
		{"btl/raw", func(r *runRecord) *float64 { return r.RatioToRaw }},
		{"p50/idle", func(r *runRecord) *float64 { return r.RatioToIdle }},
	} {
		if some(func(r *runRecord) bool { return ratio.of(r) != nil }) {
			list = append(list, column{name: ratio.name, value: func(r *runRecord) string {
				if ratio.of(r) == nil {
					return ""
				}
				return fmt.Sprintf("%.2f", *ratio.of(r))
			}})
		}
	}
	return list
}

func count(name string, value func(*runRecord) int64) column {
	return column{name: name, value: func(r *runRecord) string {
		return strconv.FormatInt(value(r), 10)
	}}
}

// latencyColumns are the figures of a ping-pong, and of the stream beside it.
func latencyColumns(test string) (list []column) {
	figure := func(name string, of func(*latencyStats) float64) {
		list = append(list, column{name: name, value: func(r *runRecord) string {
			if r.Latency == nil {
				return ""
			}
			return fmt.Sprintf("%.2f", of(r.Latency))
		}})
	}
	if test == testLatLoad {
		list = append(list,
			column{name: "load", left: true, value: func(r *runRecord) string { return r.Load }},
			column{name: "load MB/s", value: func(r *runRecord) string {
				return fmt.Sprintf("%.0f", r.LoadBandwidth)
			}})
	} else {
		list = append(list, count("round trips", func(r *runRecord) int64 { return r.Iterations }))
		figure("min", func(l *latencyStats) float64 { return l.Min })
	}
	figure("p50", func(l *latencyStats) float64 { return l.P50 })
	if test != testLatLoad {
		figure("p90", func(l *latencyStats) float64 { return l.P90 })
	}
	figure("p99", func(l *latencyStats) float64 { return l.P99 })
	figure("p99.9", func(l *latencyStats) float64 { return l.P999 })
	figure("max", func(l *latencyStats) float64 { return l.Max })
	if test != testLatLoad {
		figure("mean", func(l *latencyStats) float64 { return l.Mean })
	}
	return list
}

// flowColumns are the figures of a flow: what its test is about comes first.
func flowColumns(test string) []column {
	messages := count("messages", func(r *runRecord) int64 { return r.Iterations })
	rate := column{name: "messages/s", value: func(r *runRecord) string {
		return fmt.Sprintf("%.0f", r.Rate)
	}}
	bandwidth := column{name: "MB/s", value: func(r *runRecord) string {
		return fmt.Sprintf("%.1f", r.Bandwidth)
	}}
	if test != testRate {
		return []column{messages, bandwidth, rate}
	}
	return []column{rate, {name: "ns/message", value: func(r *runRecord) string {
		return fmt.Sprintf("%.1f", r.NsPerMessage)
	}}, bandwidth}
}

// resentText is how much was sent again, and if that is anything its share of all segments.
func resentText(r *runRecord) string {
	if r.Retransmits == 0 {
		return "0"
	}
	return fmt.Sprintf("%d (%.2g%%)", r.Retransmits, 100*r.RetransmitRatio)
}

// writeTestTable writes the runs of one test.
func writeTestTable(w io.Writer, test string, runs []runRecord, d *document) {
	t := newTable(w)
	title := testTitles[test]
	if test == testLatLoad {
		title = fmt.Sprintf(title, d.Config.LoadSize)
	}
	t.SetTitle("%s", title)
	list := columns(test, runs, d.Config.Verify)
	var header table.Row
	var configs []table.ColumnConfig
	for i, c := range list {
		header = append(header, c.name)
		if !c.left {
			configs = append(configs, table.ColumnConfig{
				Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight,
			})
		}
	}
	t.AppendHeader(header)
	t.SetColumnConfigs(configs)
	for i := range runs {
		var row table.Row
		for _, c := range list {
			row = append(row, c.value(&runs[i]))
		}
		t.AppendRow(row)
	}
	t.Render()
}
