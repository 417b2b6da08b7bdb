package compare

import (
	"encoding/xml"
	"fmt"
	"math"
	"slices"
	"strings"
)

// The plots are written here rather than by a library: lines over two logarithmic axes are not
// worth ten modules, and so every line has the colour, the dashes and the mark that tell it apart
// in print and to the colour-blind (the palette is Okabe and Ito's).

// Sizes of a plot in pixels: the axes stand in the box, the legend to its right.
const (
	plotWidth, plotHeight  = 960, 560
	boxLeft, boxTop        = 76, 52
	boxRight, boxBottom    = 700, 500
	legendLeft, legendStep = 724, 24
)

// lineStyle is how a system's line looks.
type lineStyle struct {
	color string
	dash  string // empty is solid
	width float64
	mark  byte // 'o', 's' square, 't' triangle, 'd' diamond; 0 is none
}

// lineStyles has the transport's lines thick, the bare fabric's in the same colour, thin and
// dashed. Systems that never meet in a plot share a style.
var lineStyles = map[string]lineStyle{
	"gobtl-udp":      {"#0072B2", "", 3.5, 'o'},
	"raw-udp":        {"#0072B2", "5 4", 1.5, 0},
	"gobtl-udp-1500": {"#56B4E9", "", 3.5, 'o'},
	"raw-udp-1500":   {"#56B4E9", "5 4", 1.5, 0},
	"gobtl-ofi-udp":  {"#009E73", "", 3.5, 'o'},
	"raw-ofi-udp":    {"#009E73", "5 4", 1.5, 0},
	"ucx-tcp":        {"#E69F00", "", 1.8, 's'},
	"mpi-tcp":        {"#D55E00", "", 1.8, 't'},
	"mpi-ucx":        {"#CC79A7", "", 1.8, 'd'},
	"mpi-rxd":        {"#7F7F7F", "", 1.8, 't'},
	"fi-tcp":         {"#000000", "", 1.8, 's'},
	"iperf3-tcp":     {"#000000", "", 1.8, 's'},
	"fi-rxd":         {"#000000", "8 3 2 3", 1.8, 'd'},
	"fi-udp":         {"#7F7F7F", "2 4", 1.8, 0},
	"iperf3-udp":     {"#7F7F7F", "2 4", 1.8, 0},
}

// styleOf is a system's style; one without a style of its own is still drawn.
func styleOf(id string) lineStyle {
	if s, ok := lineStyles[id]; ok {
		return s
	}
	return lineStyle{"#000000", "1 3", 1.5, 0}
}

// axis maps values to pixels logarithmically.
type axis struct{ low, high, from, to float64 }

func (a axis) at(x float64) float64 {
	return a.from + (a.to-a.from)*math.Log(x/a.low)/math.Log(a.high/a.low)
}

// Plots returns the plots by file name.
func (r *Report) Plots() map[string]string {
	return map[string]string{
		"latency.svg": r.plot(Latency, "Half a round trip, by message size (lower is better)",
			"us", "message size, bytes"),
		"stream.svg": r.plot(Stream, "Stream in one direction, by message size (higher is better)",
			"MB/s", "message size, bytes"),
		"rate.svg": r.plot(Rate, "8-byte messages, by messages in flight (higher is better)",
			"messages/s", "messages in flight, each window answered before the next"),
	}
}

// PlotNames lists the plots' files in the order of the report.
func PlotNames() []string { return []string{"latency.svg", "stream.svg", "rate.svg"} }

// plotX is a point's place on the horizontal axis.
func plotX(p Point) float64 {
	if p.Workload == Rate {
		return float64(p.Window)
	}
	return float64(p.SizeBytes)
}

// plot draws one workload.
func (r *Report) plot(w Workload, title, yTitle, xTitle string) string {
	var b strings.Builder
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 %d %d" width="%d" `+
		`height="%d" font-family="DejaVu Sans, Verdana, sans-serif" font-size="13">`+"\n",
		plotWidth, plotHeight, plotWidth, plotHeight)
	fmt.Fprintf(&b, `<rect width="%d" height="%d" fill="#FFFFFF"/>`+"\n", plotWidth, plotHeight)
	writeText(&b, boxLeft, 28, "start", "17", title)
	x, y, ok := r.axes(w)
	if !ok {
		writeText(&b, boxLeft, 80, "start", "13", "nothing was measured")
		return b.String() + "</svg>\n"
	}
	drawGrid(&b, x, y, w)
	writeText(&b, (boxLeft+boxRight)/2, plotHeight-16, "middle", "13", xTitle)
	writeText(&b, 8, boxTop-8, "start", "13", yTitle)
	// Backwards: the first of the report, the transport, comes to lie on top.
	var drawn []*Info
	for i := len(r.Systems) - 1; i >= 0; i-- {
		if r.drawLine(&b, &r.Systems[i], w, x, y) {
			drawn = append(drawn, &r.Systems[i])
		}
	}
	slices.Reverse(drawn)
	for row, about := range drawn {
		drawLegend(&b, about, boxTop+12+row*legendStep)
	}
	return b.String() + "</svg>\n"
}

// axes spans the values of a workload; ok is false when there are none.
func (r *Report) axes(w Workload) (x, y axis, ok bool) {
	x = axis{low: math.Inf(1), from: boxLeft, to: boxRight}
	y = axis{low: math.Inf(1), from: boxBottom, to: boxTop}
	for _, res := range r.Results {
		if res.Workload != w || res.Median <= 0 {
			continue
		}
		ok = true
		x.low, x.high = min(x.low, plotX(res.Point)), max(x.high, plotX(res.Point))
		y.low, y.high = min(y.low, res.Median), max(y.high, res.Median)
	}
	// Some room, so that no line runs along the frame and one value alone has a span.
	x.low, x.high = x.low/1.3, x.high*1.3
	y.low, y.high = y.low/1.3, y.high*1.3
	return x, y, ok
}

// drawGrid draws the frame, and the lines and labels of both axes.
func drawGrid(b *strings.Builder, x, y axis, w Workload) {
	for tick := 1.0; tick <= x.high; tick *= 8 {
		if tick < x.low {
			continue
		}
		at := x.at(tick)
		fmt.Fprintf(b, `<path d="M%.1f %dV%d" stroke="#E0E0E0"/>`+"\n", at, boxTop, boxBottom)
		label := sizeText(int(tick))
		if w == Rate {
			label = fmt.Sprint(int(tick))
		}
		writeText(b, at, boxBottom+20, "middle", "13", label)
	}
	for decade := math.Pow(10, math.Floor(math.Log10(y.low))); decade <= y.high; decade *= 10 {
		for _, part := range []float64{1, 2, 5} {
			tick := decade * part
			if tick < y.low || tick > y.high {
				continue
			}
			at := y.at(tick)
			fmt.Fprintf(b, `<path d="M%d %.1fH%d" stroke="#E0E0E0"/>`+"\n", boxLeft, at, boxRight)
			writeText(b, boxLeft-8, at+4.5, "end", "13", tickText(tick))
		}
	}
	fmt.Fprintf(b, `<rect x="%d" y="%d" width="%d" height="%d" fill="none" stroke="#808080"/>`+"\n",
		boxLeft, boxTop, boxRight-boxLeft, boxBottom-boxTop)
}

// tickText writes 1, 2 or 5 times a power of ten shortly.
func tickText(x float64) string {
	switch {
	case x >= 1e6:
		return fmt.Sprintf("%gM", x/1e6)
	case x >= 1e4:
		return fmt.Sprintf("%gk", x/1e3)
	}
	return fmt.Sprintf("%g", math.Round(x*1e6)/1e6)
}

// drawLine draws a system's medians, and reports whether there are any. Each has a title, which
// browsers show, with the least and the greatest value.
func (r *Report) drawLine(b *strings.Builder, about *Info, w Workload, x, y axis) bool {
	style := styleOf(about.ID)
	var path, marks strings.Builder
	for _, res := range r.Results {
		if res.System != about.ID || res.Workload != w || res.Median <= 0 {
			continue
		}
		px, py := x.at(plotX(res.Point)), y.at(res.Median)
		verb := "L"
		if path.Len() == 0 {
			verb = "M"
		}
		fmt.Fprintf(&path, "%s%.1f %.1f", verb, px, py)
		all := res.values()
		low, high := all[0], all[0]
		for _, v := range all {
			low, high = min(low, v), max(high, v)
		}
		title := fmt.Sprintf("%s, %s: %.4g %s (%.4g to %.4g)", about.Label, res.Point, res.Median,
			res.Unit, low, high)
		drawMark(&marks, style, px, py, title)
	}
	if path.Len() == 0 {
		return false
	}
	fmt.Fprintf(b, `<path d="%s" fill="none" %s/>`+"\n", path.String(), style.stroke())
	b.WriteString(marks.String())
	return true
}

// stroke writes the attributes of a line.
func (s lineStyle) stroke() string {
	text := fmt.Sprintf(`stroke="%s" stroke-width="%g" stroke-linejoin="round"`, s.color, s.width)
	if s.dash != "" {
		text += ` stroke-dasharray="` + s.dash + `"`
	}
	return text
}

// drawMark draws a line's mark; a line without marks has a dot, so that one value alone is seen.
func drawMark(b *strings.Builder, s lineStyle, x, y float64, title string) {
	var shape string
	switch s.mark {
	case 's':
		shape = fmt.Sprintf(`M%.1f %.1fh8v8h-8z`, x-4, y-4)
	case 't':
		shape = fmt.Sprintf(`M%.1f %.1fl5 9h-10z`, x, y-5)
	case 'd':
		shape = fmt.Sprintf(`M%.1f %.1fl5 5l-5 5l-5 -5z`, x, y-5)
	default:
		radius := 2.0
		if s.mark == 'o' {
			radius = 4.5
		}
		fmt.Fprintf(b, `<circle cx="%.1f" cy="%.1f" r="%g" fill="%s"><title>%s</title></circle>`+"\n",
			x, y, radius, s.color, escape(title))
		return
	}
	fmt.Fprintf(b, `<path d="%s" fill="%s"><title>%s</title></path>`+"\n", shape, s.color,
		escape(title))
}

// drawLegend draws a line's entry in the legend.
func drawLegend(b *strings.Builder, about *Info, y int) {
	style := styleOf(about.ID)
	const length = 36
	fmt.Fprintf(b, `<path d="M%d %dh%d" fill="none" %s/>`+"\n", legendLeft, y, length, style.stroke())
	drawMark(b, style, legendLeft+length/2, float64(y), about.Label)
	writeText(b, legendLeft+length+8, float64(y)+4.5, "start", "13", about.Label)
}

func writeText(b *strings.Builder, x, y float64, anchor, size, text string) {
	fmt.Fprintf(b, `<text x="%.1f" y="%.1f" text-anchor="%s" font-size="%s">%s</text>`+"\n", x, y,
		anchor, size, escape(text))
}

// escape makes text safe within XML.
func escape(text string) string {
	var b strings.Builder
	_ = xml.EscapeText(&b, []byte(text)) // A strings.Builder takes everything.
	return b.String()
}
