package main

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"time"

	"gobtl/btl"
	"gobtl/fabric"
	"gobtl/internal/report"
)

// layerState is what a layer shows of itself at the end of a run, beside what it counts.
type layerState struct {
	// Path is what the transport knows of the way to its peer; the bare fabric knows nothing.
	Path *pathRecord `json:"path"`
	// Fabric is how the provider works by now, and what has happened to it since it was opened.
	Fabric []attrRecord `json:"fabric"`
}

// pathRecord is a btl.PathState with names for JSON. The times are 0 where nothing is measured.
type pathRecord struct {
	RoundTripUs   float64 `json:"round_trip_us"`
	DeviationUs   float64 `json:"deviation_us"`
	LeastUs       float64 `json:"least_us"`
	WindowPackets int     `json:"window_packets"`
	InFlight      int     `json:"in_flight_packets"`
	SlowStart     bool    `json:"slow_start"`
}

func newPathRecord(ep *btl.Endpoint) *pathRecord {
	us := func(d time.Duration) float64 { return report.Decimals(float64(d)/1e3, 3) }
	p := ep.Path()
	return &pathRecord{
		RoundTripUs: us(p.RoundTrip), DeviationUs: us(p.Deviation), LeastUs: us(p.Least),
		WindowPackets: p.WindowPackets, InFlight: p.InFlightPackets, SlowStart: p.SlowStart,
	}
}

func newAttrRecords(attrs []fabric.Attr) []attrRecord {
	list := []attrRecord{}
	for _, a := range attrs {
		list = append(list, attrRecord{a.Name, a.Value})
	}
	return list
}

// detail is a line of the verbose report.
type detail struct{ name, client, server string }

// details lists what a run's record holds beside its figures: what the transport knows of the path,
// what the provider says of itself, and what the transport has counted.
func details(r *runRecord) (lines []detail) {
	c, s := &r.AtEnd.Client, &r.AtEnd.Server
	for _, line := range []struct {
		name string
		of   func(*pathRecord) string
	}{
		{"round trip, us", func(p *pathRecord) string { return number(p.RoundTripUs) }},
		{"its deviation, us", func(p *pathRecord) string { return number(p.DeviationUs) }},
		{"least round trip, us", func(p *pathRecord) string { return number(p.LeastUs) }},
		{"window, packets", windowText},
		{"in flight, packets", func(p *pathRecord) string { return strconv.Itoa(p.InFlight) }},
	} {
		if c.Path != nil && s.Path != nil {
			lines = append(lines, detail{line.name, line.of(c.Path), line.of(s.Path)})
		}
	}
	for _, list := range [][]attrRecord{c.Fabric, s.Fabric} {
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

func windowText(p *pathRecord) string {
	if p.SlowStart {
		return fmt.Sprintf("%d, slow start", p.WindowPackets)
	}
	return strconv.Itoa(p.WindowPackets)
}

// attrOf is the value of an attribute, which only one of the sides may have.
func attrOf(list []attrRecord, name string) string {
	i := slices.IndexFunc(list, func(a attrRecord) bool { return a.Name == name })
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

// writeDetails writes a block for each run: what both sides knew and counted.
func writeDetails(w io.Writer, runs []runRecord) error {
	for i := range runs {
		r := &runs[i]
		title := fmt.Sprintf("%s %s (%s)", r.Test, sizeText(r.SizeBytes), r.Layer)
		if r.Test == testRate {
			title += fmt.Sprintf(", window %d", r.Window)
		}
		if r.Load != "" {
			title += ", load " + r.Load
		}
		t := report.Table{Heads: [][]string{{title, "client", "server"}}, Left: []int{0}}
		for _, d := range details(r) {
			t.Rows = append(t.Rows, []string{d.name, d.client, d.server})
		}
		if _, err := fmt.Fprintf(w, "\n%s", t.String()); err != nil {
			return err
		}
	}
	return nil
}
