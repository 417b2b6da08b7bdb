package report

import (
	"bytes"
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// The colours of plots are from the palette of Okabe and Ito, so that colour-blind readers can
// distinguish them, both on a screen and in print.
var (
	Blue      = color.NRGBA{0x00, 0x72, 0xB2, 0xFF}
	SkyBlue   = color.NRGBA{0x56, 0xB4, 0xE9, 0xFF}
	Green     = color.NRGBA{0x00, 0x9E, 0x73, 0xFF}
	Orange    = color.NRGBA{0xE6, 0x9F, 0x00, 0xFF}
	Vermilion = color.NRGBA{0xD5, 0x5E, 0x00, 0xFF}
	Purple    = color.NRGBA{0xCC, 0x79, 0xA7, 0xFF}
	Grey      = color.NRGBA{0x7F, 0x7F, 0x7F, 0xFF}
	Black     = color.NRGBA{0x00, 0x00, 0x00, 0xFF}
	gridGrey  = color.NRGBA{0xE0, 0xE0, 0xE0, 0xFF}
)

// The constants below are the sizes of a plot and of the legend at its right, in points.
const (
	plotWidth, plotHeight = 720, 420
	legendWidth           = 170
	margin                = 10
)

// The constant "sans" is the font of all texts in plots. An SVG viewer without the font Liberation
// Sans uses a substitute font with the same character widths.
const sans = "Liberation Sans"

func newPlot(title, x, y string) *plot.Plot {
	p := plot.New()
	p.Title.Text, p.X.Label.Text, p.Y.Label.Text = title, x, y
	p.Title.Padding = 8
	p.Title.TextStyle.Font.Size = 14
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Label.TextStyle.Font.Variant = "Sans"
		axis.Tick.Label.Font.Variant = "Sans"
	}
	p.Title.TextStyle.Font.Variant = "Sans"
	grid := plotter.NewGrid()
	grid.Horizontal.Color, grid.Vertical.Color = gridGrey, gridGrey
	p.Add(grid)
	return p
}

func newLegend() plot.Legend {
	l := plot.NewLegend()
	l.TextStyle.Font.Variant = "Sans"
	l.TextStyle.Font.Size = 11
	l.Top, l.Left, l.Padding, l.ThumbnailWidth = true, true, 6, 30
	return l
}

// render draws a plot and its legend.
func render(p *plot.Plot, l *plot.Legend) (string, error) {
	canvas := vgsvg.New(plotWidth, plotHeight)
	all := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	p.Draw(draw.Crop(all, 0, -legendWidth, 0, 0))
	l.Draw(draw.Crop(all, plotWidth-legendWidth, 0, 0, -30))
	return svgText(canvas)
}

// renderEmpty draws a plot without values.
func renderEmpty(p *plot.Plot) (string, error) {
	p.X.Label.Text = "nothing was measured"
	p.HideY()
	l := newLegend()
	return render(p, &l)
}

func svgText(canvas *vgsvg.Canvas) (string, error) {
	var b bytes.Buffer
	_, err := canvas.WriteTo(&b)
	text := bytes.ReplaceAll(b.Bytes(), []byte(sans), []byte(sans+",Arial,sans-serif"))
	return string(text), err
}

// Mark is the shape of the points of a line.
type Mark int

// The marks.
const (
	NoMark Mark = iota
	Circle
	Square
	Triangle
	Cross
)

// Line is a series of a Lines plot.
type Line struct {
	Label  string
	Color  color.Color
	Width  float64   // in points
	Dashes []float64 // lengths of the dashes and gaps in turn, in points; nil: a solid line
	Mark   Mark
	X, Y   []float64
}

// Lines is a plot of lines over two logarithmic axes. All values of a Lines plot must be positive.
// If the field Linear is true, both axes of the plot are linear and begin at 0.
type Lines struct {
	Linear                bool
	Title, XTitle, YTitle string
	Series                []Line // the first series is on top
	// XFactor is the ratio of the values at two adjacent marks of the horizontal axis. XText formats
	// the value at a mark.
	XFactor float64
	XText   func(x float64) string
}

// SVG draws the plot. If there are no points, the plot contains only the text "nothing was
// measured".
func (l *Lines) SVG() (string, error) {
	p, legend := newPlot(l.Title, l.XTitle, l.YTitle), newLegend()
	low, high := math.Inf(1), math.Inf(-1)
	for i := len(l.Series) - 1; i >= 0; i-- {
		s := &l.Series[i]
		if len(s.X) == 0 {
			continue
		}
		line, points, err := s.plotters()
		if err != nil {
			return "", err
		}
		p.Add(line, points)
		for _, y := range s.Y {
			low, high = min(low, y), max(high, y)
		}
	}
	if low > high {
		return renderEmpty(p)
	}
	for i := range l.Series {
		if line, points, err := l.Series[i].plotters(); err == nil && len(l.Series[i].X) > 0 {
			legend.Add(l.Series[i].Label, line, points)
		}
	}
	if l.Linear {
		linearAxes(p, high)
		return render(p, &legend)
	}
	p.X.Min, p.X.Max = p.X.Min/1.3, p.X.Max*1.3
	p.Y.Min, p.Y.Max = low/1.3, high*1.3
	p.X.Scale, p.Y.Scale = plot.LogScale{}, plot.LogScale{}
	p.X.Tick.Marker = ticks(func(from, to float64) (at []float64) {
		for x := 1.0; x <= to; x *= l.XFactor {
			at = append(at, x)
		}
		return at
	}, l.XText)
	p.Y.Tick.Marker = ticks(func(from, to float64) (at []float64) {
		for decade := math.Pow(10, math.Floor(math.Log10(from))); decade <= to; decade *= 10 {
			at = append(at, decade, 2*decade, 5*decade)
		}
		return at
	}, Short)
	return render(p, &legend)
}

func linearAxes(p *plot.Plot, high float64) {
	p.X.Min, p.Y.Min, p.Y.Max = 0, 0, high*1.1
	p.Y.Tick.Marker = plot.TickerFunc(func(from, to float64) []plot.Tick {
		list := plot.DefaultTicks{}.Ticks(from, to)
		for i := range list {
			if !list[i].IsMinor() {
				list[i].Label = Short(list[i].Value)
			}
		}
		return list
	})
}

// The function "ticks" returns a Ticker for a gonum axis. The function "values" returns the
// positions of the marks, and the function "text" returns the text of a mark. The Ticker omits
// marks beyond the ends of the axis.
func ticks(values func(from, to float64) []float64, text func(float64) string) plot.TickerFunc {
	return func(from, to float64) (list []plot.Tick) {
		for _, v := range values(from, to) {
			if v >= from && v <= to {
				list = append(list, plot.Tick{Value: v, Label: text(v)})
			}
		}
		return list
	}
}

func (s *Line) plotters() (*plotter.Line, *plotter.Scatter, error) {
	xy := make(plotter.XYs, len(s.X))
	for i := range xy {
		xy[i] = plotter.XY{X: s.X[i], Y: s.Y[i]}
	}
	line, points, err := plotter.NewLinePoints(xy)
	if err != nil {
		return nil, nil, err
	}
	line.Color, line.Width = s.Color, vg.Length(s.Width)
	for _, d := range s.Dashes {
		line.Dashes = append(line.Dashes, vg.Length(d))
	}
	points.Color, points.Radius = s.Color, 3.5
	switch s.Mark {
	case NoMark: // A dot makes a single value visible.
		points.Shape, points.Radius = draw.CircleGlyph{}, 1.5
	case Circle:
		points.Shape = draw.CircleGlyph{}
	case Square:
		points.Shape = draw.BoxGlyph{}
	case Triangle:
		points.Shape = draw.PyramidGlyph{}
	case Cross:
		points.Shape = draw.CrossGlyph{}
	}
	return line, points, nil
}
