package report

import (
	"image/color"
	"math"

	"gonum.org/v1/plot"
	"gonum.org/v1/plot/plotter"
	"gonum.org/v1/plot/vg"
	"gonum.org/v1/plot/vg/draw"
	"gonum.org/v1/plot/vg/vgsvg"
)

// A Box is one value in the plot of a Heat, shown as a coloured rectangle. The field Shade of a Box
// selects its colour, from 0 (bad) to 1 (good).
type Box struct {
	Shade float64
	Text  string
}

// Heat is a plot that shows values as colours. A Heat has one or more panels side by side, and all
// panels have the same rows and columns.
type Heat struct {
	Title                 string
	Panels, Rows, Columns []string
	// The function Box returns the value in the given row and column of a panel. The result "ok" of
	// the function Box is true if the panel has a value in the given row and column, and otherwise
	// false.
	Box func(panel, row, column int) (b Box, ok bool)
}

// Sizes of a map in points.
const (
	boxWidth, boxHeight = 30, 14
	rowTextWidth        = 130
	heatFrame           = 90 // above and below the boxes
)

// SVG draws the plot, with the first row on top.
func (h *Heat) SVG() (string, error) {
	width := len(h.Panels) * (rowTextWidth + len(h.Columns)*boxWidth)
	canvas := vgsvg.New(vg.Length(width+2*margin), vg.Length(len(h.Rows)*boxHeight+heatFrame))
	all := draw.Crop(draw.New(canvas), margin, -margin, margin, -margin)
	tiles := draw.Tiles{Rows: 1, Cols: len(h.Panels), PadX: margin}
	for i := range h.Panels {
		p, err := h.panel(i)
		if err != nil {
			return "", err
		}
		p.Draw(tiles.At(all, i, 0))
	}
	return svgText(canvas)
}

func (h *Heat) panel(n int) (*plot.Plot, error) {
	p := newPlot(h.Panels[n], "", "")
	if n == 0 {
		p.Title.Text = h.Title + "\n" + h.Panels[n]
	} else {
		p.Title.Text = "\n" + h.Panels[n]
	}
	colors := plotter.NewHeatMap(&heatPanel{h, n}, viridis{})
	colors.Min, colors.Max = 0, 1
	p.Add(colors)
	labels := plotter.XYLabels{}
	var inks []color.Color
	for row := range h.Rows {
		for column := range h.Columns {
			if b, ok := h.Box(n, row, column); ok {
				labels.XYs = append(labels.XYs, plotter.XY{X: float64(column), Y: -float64(row)})
				labels.Labels = append(labels.Labels, b.Text)
				inks = append(inks, inkOn(b.Shade))
			}
		}
	}
	texts, err := plotter.NewLabels(labels)
	if err != nil {
		return nil, err
	}
	for i := range texts.TextStyle {
		s := &texts.TextStyle[i]
		s.Font.Variant, s.Font.Size, s.Color = "Sans", 7, inks[i]
		s.XAlign, s.YAlign = draw.XCenter, draw.YCenter
	}
	p.Add(texts)
	p.X.Tick.Marker = nominal(h.Columns, 1)
	p.Y.Tick.Marker = nominal(h.Rows, -1)
	for _, axis := range []*plot.Axis{&p.X, &p.Y} {
		axis.Tick.Label.Font.Size, axis.LineStyle.Width, axis.Tick.Length = 8, 0, 0
	}
	p.X.Min, p.X.Max = -0.5, float64(len(h.Columns))-0.5
	p.Y.Min, p.Y.Max = 0.5-float64(len(h.Rows)), 0.5
	return p, nil
}

func nominal(names []string, step float64) plot.ConstantTicks {
	list := make(plot.ConstantTicks, len(names))
	for i, name := range names {
		list[i] = plot.Tick{Value: float64(i) * step, Label: name}
	}
	return list
}

// heatPanel adapts one panel of a Heat to the interface of gonum's heat maps, in which row 0 is the
// lowest row.
type heatPanel struct {
	*Heat
	n int
}

func (p *heatPanel) Dims() (columns, rows int) { return len(p.Columns), len(p.Rows) }
func (p *heatPanel) X(column int) float64      { return float64(column) }
func (p *heatPanel) Y(row int) float64         { return float64(row + 1 - len(p.Rows)) }

func (p *heatPanel) Z(column, row int) float64 {
	b, ok := p.Box(p.n, len(p.Rows)-1-row, column)
	if !ok {
		return math.NaN()
	}
	return min(max(b.Shade, 0), 1)
}

// viridis is a colour scale from bad (dark) to good (light).
type viridis struct{}

var viridisStops = [][3]float64{
	{68, 1, 84}, {59, 82, 139}, {33, 145, 140}, {94, 201, 98}, {253, 231, 37},
}

// viridisColors is the number of colours in a plot.
const viridisColors = 64

func (viridis) Colors() (list []color.Color) {
	for i := range viridisColors {
		list = append(list, shadeColor(float64(i)/(viridisColors-1)))
	}
	return list
}

// shadeColor returns the colour of a shade. A shade below 0 counts as 0, and a shade above 1 counts
// as 1.
func shadeColor(x float64) color.NRGBA {
	x = min(max(x, 0), 1) * float64(len(viridisStops)-1)
	i := min(int(x), len(viridisStops)-2)
	var c [3]uint8
	for k := range c {
		from, to := viridisStops[i][k], viridisStops[i+1][k]
		c[k] = uint8(math.Round(from + (x-float64(i))*(to-from)))
	}
	return color.NRGBA{c[0], c[1], c[2], 0xFF}
}

// inkOn returns a text colour that is readable on a background whose colour is shadeColor(shade).
func inkOn(shade float64) color.Color {
	if shade > 0.55 {
		return color.Black
	}
	return color.White
}
