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
	testLat:    "Latency: ping-pong, half round trips in us",
	testBW:     "Bandwidth: one direction",
	testBiBW:   "Bandwidth: both directions together",
	testRate:   "Message rate: windows, each answered before the next",
	testPutLat: "Put latency: ping-pong through memory, half round trips in us",
	testPutBW:  "Put bandwidth: one direction",
}

// writeTestTable writes the runs of one test. Columns that would be empty are left out.
func writeTestTable(w io.Writer, test string, runs []runRecord, d *document) {
	verified := d.Config.Verify
	ratios := slices.ContainsFunc(runs, func(r runRecord) bool { return r.RatioToRaw != nil })
	lost := slices.ContainsFunc(runs, func(r runRecord) bool { return r.LostDatagrams != 0 })
	header := table.Row{"size", "layer", "messages"}
	if isLatency(test) {
		header[2] = "round trips"
		header = append(header, "min", "p50", "p90", "p99", "p99.9", "max", "mean")
	} else {
		header = append(header, "MB/s", "messages/s")
	}
	header = append(header, "resent", "dup", "CPU % c/s")
	if lost {
		header = append(header, "lost")
	}
	if verified {
		header = append(header, "verified", "corrupt")
	}
	if ratios {
		header = append(header, "btl/raw")
	}
	t := newTable(w)
	t.SetTitle("%s", testTitles[test])
	t.AppendHeader(header)
	var columns []table.ColumnConfig
	for i := range header {
		if i != 1 {
			columns = append(columns, table.ColumnConfig{
				Number: i + 1, Align: text.AlignRight, AlignHeader: text.AlignRight,
			})
		}
	}
	t.SetColumnConfigs(columns)
	for i := range runs {
		t.AppendRow(tableRow(&runs[i], lost, verified, ratios))
	}
	t.Render()
}

func tableRow(r *runRecord, lost, verified, ratios bool) table.Row {
	row := table.Row{sizeText(r.SizeBytes), r.Layer, r.Iterations}
	if l := r.Latency; l != nil {
		for _, us := range []float64{l.Min, l.P50, l.P90, l.P99, l.P999, l.Max, l.Mean} {
			row = append(row, fmt.Sprintf("%.2f", us))
		}
	} else {
		row = append(row, fmt.Sprintf("%.1f", r.Bandwidth), fmt.Sprintf("%.0f", r.Rate))
	}
	row = append(row, r.Retransmits, r.Duplicates,
		fmt.Sprintf("%.0f/%.0f", r.CPUPercent.Client, r.CPUPercent.Server))
	if lost {
		row = append(row, r.LostDatagrams)
	}
	if verified {
		row = append(row, r.VerifiedBytes, r.CorruptBytes)
	}
	if ratios {
		ratio := ""
		if r.RatioToRaw != nil {
			ratio = fmt.Sprintf("%.2f", *r.RatioToRaw)
		}
		row = append(row, ratio)
	}
	return row
}
