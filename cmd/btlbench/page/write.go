package page

import (
	"cmp"
	_ "embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strconv"

	"gobtl/cmd/btlbench/layers"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/report"
)

//go:embed page.html
var pageHTML string

var pageTemplate = template.Must(template.New("page").Parse(pageHTML))

// section is the part of the page for a test.
type section struct {
	ID, Title string
	Heads     []string
	Rows      [][]string
	Plots     []figure
}

// Write writes the page of some runs, which are numbered in their order.
func Write(w io.Writer, runs []*Run) error {
	var all []row
	for i, run := range runs {
		run.Number = i + 1
		for j := range run.Runs {
			all = append(all, row{run, &run.Runs[j]})
		}
	}
	var sections []section
	for _, test := range report.InOrder(all, func(r *row) string { return r.Test }) {
		rows := slices.DeleteFunc(slices.Clone(all), func(r row) bool { return r.Test != test })
		s := section{ID: test, Title: title(test)}
		s.table(rows, len(runs) > 1)
		var err error
		if s.Plots, err = plots(test, rows); err != nil {
			return fmt.Errorf("drawing %s: %w", test, err)
		}
		sections = append(sections, s)
	}
	return pageTemplate.Execute(w, struct {
		Version  string
		Runs     []*Run
		Sections []section
	}{report.Version(), runs, sections})
}

// The method table fills the table of a test. Rows of the same measurement stand together, and each
// row is compared with the row of the first run that has the measurement.
func (s *section) table(rows []row, compared bool) {
	s.Heads = []string{"size", "run", "layer", "streams"}
	switch test := rows[0].Test; {
	case test == plan.TestLatLoad:
		s.Heads = append(s.Heads, "load", "p50 us", "p99 us", "p99.9 us", "p99.99 us", "max us")
	case plan.IsLatency(test):
		s.Heads = append(s.Heads, "p50 us", "p99 us", "p99.9 us", "p99.99 us", "max us")
	default:
		s.Heads = append(s.Heads, "window", "MB/s", "Gbit/s", "messages/s")
	}
	s.Heads = append(s.Heads, "resent")
	if compared {
		s.Heads = append(s.Heads, "ratio to the first")
	}
	var ordered []row
	for _, r := range rows {
		if !slices.ContainsFunc(ordered, r.same) {
			for _, o := range rows {
				if r.same(o) {
					ordered = append(ordered, o)
				}
			}
		}
	}
	for _, r := range ordered {
		first := ordered[slices.IndexFunc(ordered, r.same)]
		s.Rows = append(s.Rows, r.cells(compared, first))
	}
}

// cells returns the cells of a line of the table.
func (r row) cells(compared bool, first row) []string {
	text := func(x float64) string {
		return strconv.FormatFloat(report.Significant(x), 'f', -1, 64)
	}
	list := []string{
		plan.SizeText(r.SizeBytes), strconv.Itoa(r.run.Number), r.Layer, strconv.Itoa(max(1, r.Streams)),
	}
	if r.Test == plan.TestLatLoad {
		list = append(list, r.Load)
	}
	if plan.IsLatency(r.Test) {
		l := cmp.Or(r.Latency, &layers.LatencyStats{})
		for _, us := range []float64{l.P50, l.P99, l.P999, l.P9999, l.Max} {
			list = append(list, text(us))
		}
	} else {
		list = append(list, strconv.Itoa(r.Window), text(r.Bandwidth), text(r.Bandwidth*8/1000),
			text(r.Rate))
	}
	list = append(list, strconv.FormatUint(r.Retransmits, 10))
	if compared {
		ratio := ""
		if per := first.value(); per > 0 && first.run != r.run {
			ratio = strconv.FormatFloat(r.value()/per, 'f', 2, 64)
		}
		list = append(list, ratio)
	}
	return list
}
