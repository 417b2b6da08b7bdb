//go:build linux

package recovery

import (
	"encoding/xml"
	"fmt"
	"math"
	"strconv"
	"strings"
)

// Sizes of a plot in pixels: the bars stand in the box, the legend below it.
const (
	plotWidth, plotHeight = 860, 430
	boxLeft, boxRight     = 70, 840
	boxTop, boxBottom     = 50, 340
	legendTop             = 395
)

// colors tell the systems apart (the palette is Okabe and Ito's).
var colors = map[string]string{
	"usnic": "#56B4E9", "adaptive": "#0072B2", "fixed": "#009E73", "tcp": "#D55E00", "rxd": "#7F7F7F",
}

// bars is a plot of groups of bars, one for each system.
type bars struct {
	title, unit string
	groups      []string
	systems     []System
	value       func(group, system string) (float64, bool)
	log         bool
	low, high   float64
}

// Plots returns the plots by file name.
func (r *Result) Plots() map[string]string {
	losses := make([]string, 0, len(r.Options.Losses))
	for _, share := range r.Options.Losses {
		losses = append(losses, percent(share))
	}
	loss := func(key string) func(setting, system string) (float64, bool) {
		return func(setting, system string) (float64, bool) {
			return r.Median("loss", setting, system, key)
		}
	}
	queues := make([]string, 0, len(r.Options.Queues))
	for _, bytes := range r.Options.Queues {
		queues = append(queues, queueName(bytes))
	}
	var shown []System
	for _, s := range r.Systems {
		if s.ID != "fixed" {
			shown = append(shown, s)
		}
	}
	link := func(queue, system string) (float64, bool) {
		return r.Median("share", queue+", one flow", system, "use_pct")
	}
	return map[string]string{
		"sockets-goodput.svg": bars{
			"Goodput by random loss (higher is better)", "% of the system's own without loss",
			losses, shown, func(setting, system string) (float64, bool) {
				v, ok := r.ratio(place{"loss", setting, system, "goodput_MBps"},
					place{"loss", percent(0), system, "goodput_MBps"})
				return 100 * v, ok
			}, false, 0, 120,
		}.svg(),
		"sockets-latency.svg": bars{
			"Round trip of 8 bytes, p99.9, by random loss (lower is better)", "us", losses, shown,
			loss("p999_us"), true, 10, 1e6,
		}.svg(),
		"sockets-link.svg": bars{
			"Use of a link of 100 Mbit/s by one flow, by the link's queue", "%", queues, shown, link,
			false, 0, 100,
		}.svg(),
	}
}

// PlotNames lists the plots' files in the order of the document.
func PlotNames() []string {
	return []string{"sockets-goodput.svg", "sockets-latency.svg", "sockets-link.svg"}
}

// y is the place of a value; those beyond the axis stand at its ends.
func (p bars) y(v float64) float64 {
	at := (v - p.low) / (p.high - p.low)
	if p.log {
		at = math.Log(v/p.low) / math.Log(p.high/p.low)
	}
	return boxBottom - min(1, max(0, at))*(boxBottom-boxTop)
}

// grid are the values at which the axis has lines.
func (p bars) grid() (at []float64) {
	if p.log {
		for v := p.low; v <= p.high*1.01; v *= 10 {
			at = append(at, v)
		}
		return at
	}
	for v := p.low; v <= p.high; v += 20 {
		at = append(at, v)
	}
	return at
}

// svg draws the plot.
func (p bars) svg() string {
	var b strings.Builder
	text := func(x, y float64, anchor, s string) {
		var escaped strings.Builder
		_ = xml.EscapeText(&escaped, []byte(s)) // a strings.Builder takes everything
		fmt.Fprintf(&b, `<text x="%.0f" y="%.0f" text-anchor="%s">%s</text>`+"\n", x, y, anchor, &escaped)
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%d" height="%d" `+
		`viewBox="0 0 %[1]d %d" font-family="sans-serif" font-size="12">`+"\n", plotWidth, plotHeight,
		plotHeight)
	b.WriteString(`<rect width="100%" height="100%" fill="white"/>` + "\n")
	text(boxLeft, 24, "start", p.title)
	text(boxLeft, 42, "start", p.unit)
	for _, v := range p.grid() {
		fmt.Fprintf(&b, `<line x1="%d" y1="%.1f" x2="%d" y2="%[2]f" stroke="#DDD"/>`+"\n", boxLeft,
			p.y(v), boxRight)
		text(boxLeft-6, p.y(v)+4, "end", short(v))
	}
	group := float64(boxRight-boxLeft) / float64(max(1, len(p.groups)))
	width := group * 0.8 / float64(max(1, len(p.systems)))
	for i, name := range p.groups {
		left := boxLeft + group*(float64(i)+0.1)
		text(left+group*0.4, boxBottom+34, "middle", name)
		for j, sys := range p.systems {
			x := left + width*float64(j)
			v, ok := p.value(name, sys.ID)
			if !ok {
				text(x+width/2, boxBottom-4, "middle", "-")
				continue
			}
			fmt.Fprintf(&b, `<rect x="%.1f" y="%.1f" width="%.1f" height="%.1f" fill="%s"/>`+"\n", x+1,
				p.y(v), width-2, boxBottom-p.y(v), colorOf(sys.ID))
			text(x+width/2, p.y(v)-4, "middle", short(v))
		}
	}
	fmt.Fprintf(&b, `<line x1="%d" y1="%d" x2="%d" y2="%[2]d" stroke="black"/>`+"\n", boxLeft,
		boxBottom, boxRight)
	step := float64(boxRight-boxLeft) / float64(max(1, len(p.systems)))
	for j, sys := range p.systems {
		x := boxLeft + step*float64(j)
		fmt.Fprintf(&b, `<rect x="%.0f" y="%d" width="14" height="14" fill="%s"/>`+"\n", x, legendTop,
			colorOf(sys.ID))
		text(x+20, legendTop+12, "start", sys.Label)
	}
	b.WriteString("</svg>\n")
	return b.String()
}

func colorOf(id string) string {
	if c, ok := colors[id]; ok {
		return c
	}
	return "#CC79A7"
}

// short writes a figure with two or three digits.
func short(v float64) string {
	switch {
	case v >= 1e6:
		return strconv.FormatFloat(v/1e6, 'g', 3, 64) + "M"
	case v >= 1e4:
		return strconv.FormatFloat(v/1e3, 'f', 0, 64) + "k"
	case v >= 1e3:
		return strconv.FormatFloat(v/1e3, 'f', 1, 64) + "k"
	case v >= 10 || v == 0:
		return strconv.FormatFloat(v, 'f', 0, 64)
	}
	return strconv.FormatFloat(v, 'f', 1, 64)
}
