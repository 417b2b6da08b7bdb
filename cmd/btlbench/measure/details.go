package measure

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/report"
)

// detail is a line of the verbose report.
type detail struct{ name, client, server string }

// details lists the other parts of a run's record, which are the path, the description of the
// provider, and the counters of the transport.
func details(r *RunRecord) (lines []detail) {
	c, s := &r.AtEnd.Client, &r.AtEnd.Server
	for _, line := range []struct {
		name string
		of   func(*layers.PathRecord) string
	}{
		{"round trip, us", func(p *layers.PathRecord) string { return number(p.RoundTripUs) }},
		{"its deviation, us", func(p *layers.PathRecord) string { return number(p.DeviationUs) }},
		{"least round trip, us", func(p *layers.PathRecord) string { return number(p.LeastUs) }},
		{"window, packets", windowText},
		{"in flight, packets", func(p *layers.PathRecord) string { return strconv.Itoa(p.InFlight) }},
		{"datagram, bytes", func(p *layers.PathRecord) string { return strconv.Itoa(p.MTUBytes) }},
		{"why", func(p *layers.PathRecord) string { return p.MTUWhy }},
	} {
		if c.Path != nil && s.Path != nil {
			lines = append(lines, detail{line.name, line.of(c.Path), line.of(s.Path)})
		}
	}
	for _, list := range [][]layers.AttrRecord{c.Fabric, s.Fabric} {
		for _, a := range list {
			if !slices.ContainsFunc(lines, func(d detail) bool { return d.name == a.Name }) {
				lines = append(lines, detail{a.Name, attrOf(c.Fabric, a.Name), attrOf(s.Fabric, a.Name)})
			}
		}
	}
	counted := maps.Clone(r.Counters.Client)
	maps.Copy(counted, r.Counters.Server)
	for _, name := range slices.Sorted(maps.Keys(counted)) {
		lines = append(lines, detail{
			name, countText(r.Counters.Client[name]), countText(r.Counters.Server[name]),
		})
	}
	return lines
}

func windowText(p *layers.PathRecord) string {
	if p.SlowStart {
		return fmt.Sprintf("%d, slow start", p.WindowPackets)
	}
	return strconv.Itoa(p.WindowPackets)
}

// attrOf returns the value of an attribute, which only one of the sides may have.
func attrOf(list []layers.AttrRecord, name string) string {
	i := slices.IndexFunc(list, func(a layers.AttrRecord) bool { return a.Name == name })
	if i < 0 {
		return "-"
	}
	return cmp.Or(list[i].Value, "-")
}

func countText(n uint64) string {
	if n == 0 {
		return "-"
	}
	return strconv.FormatUint(n, 10)
}

// writeDetails writes a block for each run, with the state and the counters of both sides, and the
// measurements of each stream if there are several.
func writeDetails(w io.Writer, runs []RunRecord) error {
	for i := range runs {
		r := &runs[i]
		title := fmt.Sprintf("%s %s (%s)", r.Test, plan.SizeText(r.SizeBytes), r.Layer)
		if r.Test == plan.TestRate {
			title += fmt.Sprintf(", window %d", r.Window)
		}
		if r.Load != "" {
			title += ", load " + r.Load
		}
		t := report.Table{Heads: [][]string{{title, "client", "server"}}, Left: []int{0}}
		for _, d := range details(r) {
			t.Rows = append(t.Rows, []string{d.name, d.client, d.server})
		}
		if _, err := fmt.Fprintf(w, "\n%s%s", t.String(), streamsText(title, r)); err != nil {
			return err
		}
	}
	return nil
}

// streamsText returns a table with a line for each stream of a run, or nothing if the run has a
// single stream. Each figure is the median over the rounds.
func streamsText(title string, r *RunRecord) string {
	if r.Streams < 2 {
		return ""
	}
	heads := []string{title + ", stream", "MB/s", "Gbit/s", "messages/s"}
	if r.Latency != nil {
		heads = []string{title + ", stream", "p50 us", "p99 us", "max us"}
	}
	t := report.Table{Heads: [][]string{heads}, Left: []int{0}}
	for i := range r.Streams {
		t.Rows = append(t.Rows, append([]string{strconv.Itoa(i + 1)}, streamCells(r, i)...))
	}
	return "\n" + t.String()
}

// streamCells returns the figures of stream i of a run, from 0 on.
func streamCells(r *RunRecord, i int) []string {
	of := func(figure func(*streamRecord) float64) float64 {
		return median(r.Rounds, func(round *roundRecord) float64 {
			if i >= len(round.Streams) || r.Latency != nil && round.Streams[i].Latency == nil {
				return 0
			}
			return figure(&round.Streams[i])
		})
	}
	if r.Latency != nil {
		return []string{
			microseconds(of(func(s *streamRecord) float64 { return s.Latency.P50 })),
			microseconds(of(func(s *streamRecord) float64 { return s.Latency.P99 })),
			microseconds(of(func(s *streamRecord) float64 { return s.Latency.Max })),
		}
	}
	bandwidth := of(func(s *streamRecord) float64 { return s.Bandwidth })
	rate := of(func(s *streamRecord) float64 { return s.Rate })
	return []string{
		fmt.Sprintf("%.1f", bandwidth), fmt.Sprintf("%.2f", bandwidth*8/1000),
		fmt.Sprintf("%.0f", rate),
	}
}
