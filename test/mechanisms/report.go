package main

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/jedib0t/go-pretty/v6/table"

	"gobtl/internal/report"
)

// marker is the name of the marker lines around the table in the document.
const marker = "mechanisms"

// leastGain is the gain below which a mechanism is not worth its lines.
const leastGain = .05

// gains returns in each round by which factor the mechanism is better, minus one. For units of
// packets in a hundred, a gain is the part of the packets that is saved.
func (o *outcome) gains(unit string) []float64 {
	all := make([]float64, len(o.with))
	for i, a := range o.with {
		b := o.without[i]
		switch {
		case a == b:
		case strings.HasSuffix(unit, "-%") && slices.Contains(moreIsBetter, unit):
			all[i] = (a - b) / 100
		case strings.HasSuffix(unit, "-%"):
			all[i] = (b - a) / 100
		case slices.Contains(moreIsBetter, unit):
			all[i] = a/b - 1
		default:
			all[i] = b/a - 1
		}
	}
	return all
}

// gainText is the median gain, and its least and its largest value in several rounds.
func (o *outcome) gainText(unit string) string {
	all := o.gains(unit)
	text := percent(report.Median(all))
	if len(all) > 1 {
		text += fmt.Sprintf(" (%s to %s)", percent(slices.Min(all)), percent(slices.Max(all)))
	}
	return text
}

func percent(x float64) string {
	switch {
	case math.IsInf(x, 0):
		return "all"
	case math.Abs(x) < .0005:
		return "0 %"
	case math.Abs(x) < .0995:
		return fmt.Sprintf("%+.1f %%", 100*x)
	}
	return fmt.Sprintf("%+.0f %%", 100*x)
}

// figure is the median of several rounds.
func figure(all []float64) string {
	return strconv.FormatFloat(report.Significant(report.Median(all)), 'f', -1, 64)
}

// show prints the result of a trial.
func (r *row) show(i int) {
	t, o := &r.trials[i], &r.result[i]
	fmt.Printf("%-42s %-55s %10s %10s %-12s %s\n", r.name, t.title(), figure(o.with),
		figure(o.without), t.unit, o.gainText(t.unit))
}

// verdict says whether the mechanism is worth its lines.
func (r *row) verdict() string {
	if r.needed != "" {
		return "needed: " + r.needed
	}
	best, known := math.Inf(-1), false
	for i := range r.trials {
		if o := &r.result[i]; len(o.with) > 0 {
			best, known = max(best, report.Median(o.gains(r.trials[i].unit))), true
		}
	}
	switch {
	case !known:
		return ""
	case best < leastGain:
		return "below 5 %"
	}
	return "worth it"
}

// markdown returns the table.
func markdown(rows []row) string {
	t := report.NewWriter(nil)
	t.AppendHeader(table.Row{
		"mechanism", "lines", "off by", "situation", "with", "without", "brings", "verdict",
	})
	for i := range rows {
		r := &rows[i]
		first := table.Row{r.name, r.lines, r.switched()}
		last := r.verdict()
		if len(r.trials) == 0 {
			t.AppendRow(append(first, "", "", "", "", last))
		}
		for k := range r.trials {
			o, unit := &r.result[k], r.trials[k].unit
			cells := table.Row{r.trials[k].title(), "", "", ""}
			if len(o.with) > 0 {
				cells = table.Row{
					r.trials[k].title(), figure(o.with) + " " + unit,
					figure(o.without), o.gainText(unit),
				}
			}
			t.AppendRow(append(append(first, cells...), last))
			first, last = table.Row{"", "", ""}, ""
		}
	}
	return t.RenderMarkdown() + "\n"
}

// head says when and where the table was measured.
func head(o *measure) string {
	m := report.ThisMachine()
	return fmt.Sprintf("Measured %s on %s (%d CPUs), %s %s, with `make mechanisms`. The figures that "+
		"are not simulated are medians of %d rounds.\n\n", time.Now().Format(time.DateOnly), m.CPUModel,
		m.CPUs, m.OS, m.Kernel, o.Rounds)
}
