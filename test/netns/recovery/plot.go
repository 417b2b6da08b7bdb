//go:build linux

package recovery

import (
	"image/color"
	"math"

	"gobtl/internal/report"
)

// colors holds a colour for each system.
var colors = map[string]color.Color{
	"usnic": report.SkyBlue, "adaptive": report.Blue, "fixed": report.Green,
	"tcp": report.Vermilion, "rxd": report.Grey,
}

func colorOf(id string) color.Color {
	if c, ok := colors[id]; ok {
		return c
	}
	return report.Purple
}

// PlotNames lists the files of the plots in the order of the document.
func PlotNames() []string {
	return []string{"sockets-goodput.svg", "sockets-latency.svg", "sockets-link.svg"}
}

// Plots returns the plots by file name.
func (r *Result) Plots() (map[string]string, error) {
	losses := make([]string, 0, len(r.Options.Losses))
	for _, share := range r.Options.Losses {
		losses = append(losses, percent(share))
	}
	queues := make([]string, 0, len(r.Options.Queues))
	for _, bytes := range r.Options.Queues {
		queues = append(queues, queueName(bytes))
	}
	plots := map[string]string{}
	for i, plot := range []struct {
		report.Bars
		value func(group, system string) (float64, bool)
	}{
		{report.Bars{
			Title: "Goodput by random loss (higher is better)",
			Unit:  "% of the system's own without loss", Groups: losses, High: 120, Step: 20,
		}, func(loss, system string) (float64, bool) {
			v, ok := r.ratio(place{"loss", loss, system, "goodput_MBps"},
				place{"loss", percent(0), system, "goodput_MBps"})
			return 100 * v, ok
		}},
		{report.Bars{
			Title: "Round trip of 8 bytes, p99.9, by random loss (lower is better)", Unit: "us",
			Groups: losses, Log: true, Low: 10, High: 1e6, Step: 10,
		}, func(loss, system string) (float64, bool) {
			return r.Median("loss", loss, system, "p999_us")
		}},
		{report.Bars{
			Title: "Use of a link of 100 Mbit/s by one flow, by the link's queue", Unit: "%",
			Groups: queues, High: 100, Step: 20,
		}, func(queue, system string) (float64, bool) {
			return r.Median("share", queue+", one flow", system, "use_pct")
		}},
	} {
		for _, s := range r.Systems {
			if s.ID == "fixed" {
				continue
			}
			bar := report.Bar{Label: s.Label, Color: colorOf(s.ID)}
			for _, group := range plot.Groups {
				v, ok := plot.value(group, s.ID)
				if !ok {
					v = math.NaN()
				}
				bar.Values = append(bar.Values, v)
			}
			plot.Series = append(plot.Series, bar)
		}
		svg, err := plot.SVG()
		if err != nil {
			return nil, err
		}
		plots[PlotNames()[i]] = svg
	}
	return plots, nil
}
