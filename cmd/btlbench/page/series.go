package page

import (
	"fmt"
	"html/template"
	"image/color"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/measure"
	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/report"
)

// row is a measurement of a run.
type row struct {
	run *Run
	*measure.RunRecord
}

// The method value returns the main value of a test.
func (r row) value() float64 {
	switch {
	case r.Latency != nil:
		return r.Latency.P50
	case r.Test == plan.TestRate:
		return r.Rate
	}
	return r.Bandwidth
}

// unit returns the unit of value.
func unit(test string) string {
	switch {
	case plan.IsLatency(test):
		return "us"
	case test == plan.TestRate:
		return "messages/s"
	}
	return "MB/s"
}

// The method same reports whether two rows have the same test, size, window and layer, in any runs.
func (r row) same(o row) bool {
	return r.Test == o.Test && r.Layer == o.Layer && r.SizeBytes == o.SizeBytes &&
		r.Window == o.Window && r.Load == o.Load && r.Streams == o.Streams
}

var colors = []color.Color{
	report.Blue, report.Vermilion, report.Green, report.Purple, report.Orange, report.SkyBlue,
	report.Grey, report.Black,
}

var marks = map[string]report.Mark{
	plan.LayerBTL: report.Circle, plan.LayerRaw: report.Triangle, plan.LayerRunner: report.Square,
}

// figure is a plot, with a legend for screens that are too narrow for the legend in the plot.
type figure struct {
	SVG    template.HTML
	Legend []mark
}

// mark is a series in the legend.
type mark struct{ Label, Color string }

// draw draws a plot.
func draw(l *report.Lines) (f figure, err error) {
	svg, err := l.SVG()
	f.SVG = template.HTML(inline(svg)) //nolint:gosec // Our plots escape the texts in them.
	for _, s := range l.Series {
		r, g, b, _ := s.Color.RGBA()
		f.Legend = append(f.Legend, mark{s.Label, fmt.Sprintf("#%02x%02x%02x", r>>8, g>>8, b>>8)})
	}
	return f, err
}

// plots draws the plots of the rows of one test.
func plots(test string, rows []row) (list []figure, err error) {
	over := &report.Lines{
		Title: title(test), XTitle: "message, bytes", YTitle: unit(test), XFactor: 4,
		XText: func(x float64) string { return plan.SizeText(int(x)) },
	}
	x := func(r row) float64 { return float64(r.SizeBytes) }
	key := func(r row) string { return windowKey(r, rows) }
	sizes := report.InOrder(rows, func(r *row) int { return r.SizeBytes })
	if test == plan.TestRate && len(sizes) == 1 {
		over.XTitle = "messages in flight"
		over.XText = func(x float64) string { return strconv.Itoa(int(x)) }
		x = func(r row) float64 { return float64(r.Window) }
		key = func(r row) string { return seriesName(r) }
	}
	for _, name := range report.InOrder(rows, func(r *row) string { return key(*r) }) {
		over.Series = append(over.Series, lines(rows, name, key, x)...)
	}
	all := []*report.Lines{over}
	if byTime := timePlot(test, rows); len(byTime.Series) > 0 {
		all = append(all, byTime)
	}
	for _, l := range all {
		f, err := draw(l)
		if err != nil {
			return nil, err
		}
		list = append(list, f)
	}
	return list, nil
}

// title returns the heading of a test.
func title(test string) string {
	text := strings.NewReplacer(" of %s messages", "", ", half round trips in us", "").Replace(
		plan.Title(test))
	if text == "" { // of another version
		return test
	}
	return text
}

// seriesName returns the name of a row's run and layer.
func seriesName(r row) string { return r.run.short() + " " + r.Layer }

// windowKey is the name of a series of sizes, with windows, loads and streams if a test has several
// of them.
func windowKey(r row, all []row) string {
	name := seriesName(r)
	if r.Load != "" {
		name += " " + r.Load
	}
	for _, o := range all {
		if o.run == r.run && o.Layer == r.Layer && o.SizeBytes == r.SizeBytes && o.Load == r.Load &&
			o.Window != r.Window {
			return fmt.Sprintf("%s, %d in flight", name, r.Window)
		}
	}
	return name
}

// lines returns the lines of a series, with a line for p99 if the value is a latency.
func lines(rows []row, name string, key func(row) string, x func(row) float64,
) (list []report.Line) {
	var line, tail report.Line
	for _, r := range rows {
		if key(r) != name || x(r) <= 0 || r.value() <= 0 {
			continue
		}
		c := colors[(r.run.Number-1)%len(colors)]
		line.Label, line.Color, line.Width, line.Mark = name, c, 1.5, marks[r.Layer]
		line.X, line.Y = append(line.X, x(r)), append(line.Y, r.value())
		if r.Latency != nil && r.Latency.P99 > 0 {
			line.Label = name + " p50"
			tail.Label, tail.Color, tail.Width, tail.Dashes = name+" p99", c, 1, []float64{4, 3}
			tail.X, tail.Y = append(tail.X, x(r)), append(tail.Y, r.Latency.P99)
		}
	}
	for _, l := range []report.Line{line, tail} {
		if len(l.X) > 0 {
			list = append(list, l)
		}
	}
	return list
}

// timePlot is the plot of the intervals of the largest message, without series if there are no
// intervals. The last interval of a round may be too short to be meaningful.
func timePlot(test string, rows []row) *report.Lines {
	over := &report.Lines{Title: title(test) + ", by time", YTitle: unit(test), Linear: true}
	largest := -1
	for _, r := range rows {
		if len(r.Intervals) > 0 {
			largest = max(largest, r.SizeBytes)
		}
	}
	over.XTitle = fmt.Sprintf("seconds (messages of %s)", plan.SizeText(largest))
	for _, r := range rows {
		if r.SizeBytes != largest || len(r.Intervals) == 0 {
			continue
		}
		l := report.Line{
			Label: windowKey(r, rows), Color: colors[(r.run.Number-1)%len(colors)], Width: 1.5,
		}
		from, usual := 0.0, 0.0 // where the round began, and the longest interval
		for _, iv := range r.Intervals {
			usual = max(usual, iv.EndS-iv.StartS)
		}
		for i, iv := range r.Intervals {
			if i > 0 && iv.Round != r.Intervals[i-1].Round {
				from += r.Intervals[i-1].EndS
			}
			if iv.EndS-iv.StartS < usual/2 {
				continue
			}
			one := row{r.run, &measure.RunRecord{
				Test: r.Test, Latency: iv.Latency, Rate: iv.Rate, Bandwidth: iv.Bandwidth,
			}}
			l.X, l.Y = append(l.X, from+iv.EndS), append(l.Y, one.value())
		}
		over.Series = append(over.Series, l)
	}
	return over
}

// inline returns an SVG as a part of a page, without name spaces.
func inline(svg string) string {
	if at := strings.Index(svg, "<svg"); at >= 0 {
		svg = svg[at:]
	}
	for _, name := range []string{"xmlns", "xmlns:xlink"} {
		before, rest, ok := strings.Cut(svg, name+`="`)
		if _, after, closed := strings.Cut(rest, `"`); ok && closed {
			svg = before + after
		}
	}
	return svg
}
