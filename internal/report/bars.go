package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
)

// Bar is a series of a Bars plot. The field Values holds one value for each group of bars, and a
// missing value is NaN.
type Bar struct {
	Label  string
	Color  color.Color
	Values []float64
}

// Bars is a plot of groups of bars, with a linear axis or (if Log is true) a logarithmic axis. If
// the value of a bar lies beyond the end of the axis, the plot cuts off the bar at the end of the
// axis. The plot shows the value of each bar above the bar, and a dash in place of a bar without a
// value.
type Bars struct {
	Title, Unit string
	Groups      []string
	Series      []Bar
	Log         bool
	Low, High   float64
	Step        float64 // difference between marks of the axis; with Log, a factor
}

// groupShare is the fraction of a group's width that the bars of the group take.
const groupShare = 0.8

// SVG draws the plot.
func (b *Bars) SVG() (string, error) {
	p, legend := newPlot(b.Title, "", b.Unit), newLegend()
	if len(b.Groups) == 0 {
		return renderEmpty(p)
	}
	p.NominalX(b.Groups...)
	bar := groupShare / float64(max(1, len(b.Series)))
	room := float64(plotWidth-legendWidth-2*margin-60) / float64(len(b.Groups))
	labels := plotter.XYLabels{}
	for j, s := range b.Series {
		left := (float64(j) - float64(len(b.Series)-1)/2) * bar
		heights := make(plotter.Values, len(b.Groups))
		for i := range b.Groups {
			text := "-"
			if v := s.Values[i]; !math.IsNaN(v) {
				heights[i], text = b.at(v), Short(v)
			}
			labels.XYs = append(labels.XYs, plotter.XY{X: float64(i) + left, Y: heights[i]})
			labels.Labels = append(labels.Labels, text)
		}
		chart, err := plotter.NewBarChart(heights, vg.Length(room*bar*0.92))
		if err != nil {
			return "", err
		}
		chart.XMin, chart.Color, chart.LineStyle.Width = left, s.Color, 0
		p.Add(chart)
		legend.Add(s.Label, chart)
	}
	texts, err := plotter.NewLabels(labels)
	if err != nil {
		return "", err
	}
	for i := range texts.TextStyle {
		texts.TextStyle[i].Font.Variant, texts.TextStyle[i].Font.Size = "Sans", 8
		texts.TextStyle[i].XAlign = -0.5
	}
	texts.Offset.Y = 2
	p.Add(texts)
	p.X.Min, p.X.Max = -0.5, float64(len(b.Groups))-0.5
	p.Y.Min, p.Y.Max = 0, b.at(b.High)
	// If the field Log is true, the height of a bar is the logarithm of its value, because gonum
	// cannot draw bars over a logarithmic axis.
	p.Y.Tick.Marker = ticks(func(_, _ float64) (at []float64) {
		for v := b.Low; v <= b.High*1.001; v = b.next(v) {
			at = append(at, b.at(v))
		}
		return at
	}, func(at float64) string { return Short(Decimals(b.value(at), 3)) })
	return render(p, &legend)
}

// The method "at" converts a measured value to the height of its bar, and the method "value"
// converts the height of a bar to its value.
func (b *Bars) at(v float64) float64 {
	v = min(max(v, b.Low), b.High)
	if b.Log {
		return math.Log10(v / b.Low)
	}
	return v - b.Low
}

func (b *Bars) value(at float64) float64 {
	if b.Log {
		return b.Low * math.Pow(10, at)
	}
	return b.Low + at
}

func (b *Bars) next(v float64) float64 {
	if b.Log {
		return v * b.Step
	}
	return v + b.Step
}
