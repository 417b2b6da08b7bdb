package compare

import (
	"fmt"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

var dotted = []float64{6, 2, 1, 2}

// lineStyles are the line styles of systems, with thick lines for the transport and thin dashed
// lines of the same colour for the bare fabric. Systems that are never in the same plot may share a
// style.
var lineStyles = map[string]report.Line{
	"gobtl-udp":      {Color: report.Blue, Width: 2.8, Mark: report.Circle},
	"raw-udp":        {Color: report.Blue, Width: 1.2, Dashes: []float64{4, 3}},
	"gobtl-udp-1500": {Color: report.SkyBlue, Width: 2.8, Mark: report.Circle},
	"raw-udp-1500":   {Color: report.SkyBlue, Width: 1.2, Dashes: []float64{4, 3}},
	"gobtl-shm":      {Color: report.Blue, Width: 2.8, Mark: report.Circle},
	"raw-shm":        {Color: report.Blue, Width: 1.2, Dashes: []float64{4, 3}},
	"gobtl-ofi-udp":  {Color: report.Green, Width: 2.8, Mark: report.Circle},
	"raw-ofi-udp":    {Color: report.Green, Width: 1.2, Dashes: []float64{4, 3}},
	"ucx-tcp":        {Color: report.Orange, Width: 1.4, Mark: report.Square},
	"mpi-tcp":        {Color: report.Vermilion, Width: 1.4, Mark: report.Triangle},
	"mpi-ucx":        {Color: report.Purple, Width: 1.4, Mark: report.Cross},
	"mpi-rxd":        {Color: report.Grey, Width: 1.4, Mark: report.Triangle},
	"fi-tcp":         {Color: report.Black, Width: 1.4, Mark: report.Square},
	"iperf3-tcp":     {Color: report.Black, Width: 1.4, Mark: report.Square},
	"fi-rxd":         {Color: report.Black, Width: 1.4, Dashes: dotted, Mark: report.Cross},
	"fi-udp":         {Color: report.Grey, Width: 1.4, Dashes: []float64{1, 3}},
	"iperf3-udp":     {Color: report.Grey, Width: 1.4, Dashes: []float64{1, 3}},

	"mpi-vader":        {Color: report.Vermilion, Width: 1.4, Mark: report.Triangle},
	"mpi-vader-copies": {Color: report.Vermilion, Width: 1.4, Dashes: dotted, Mark: report.Triangle},
	"mpi-ucx-posix":    {Color: report.Purple, Width: 1.4, Mark: report.Cross},
	"ucx-posix":        {Color: report.Orange, Width: 1.4, Mark: report.Square},
	"ucx-posix-cma":    {Color: report.Orange, Width: 1.4, Dashes: dotted, Mark: report.Square},
	"ucx-sysv":         {Color: report.Green, Width: 1.4, Mark: report.Square},
	"ucx-errors":       {Color: report.Green, Width: 1.4, Dashes: dotted, Mark: report.Square},
	"fi-shm":           {Color: report.Black, Width: 1.4, Dashes: dotted, Mark: report.Cross},
}

// styleOf returns the style of a system, or a default style.
func styleOf(id string) report.Line {
	if s, ok := lineStyles[id]; ok {
		return s
	}
	return report.Line{Color: report.Black, Width: 1.2, Dashes: []float64{1, 2}}
}

// PlotNames lists the files of the plots in the order of the report.
func PlotNames(table systems.Table) []string {
	names := []string{"latency.svg", "stream.svg", "rate.svg"}
	if table == systems.OneHost {
		for i := range names {
			names[i] = "host-" + names[i]
		}
	}
	return names
}

// Plots returns the plots by file name.
func (r *Report) Plots() (map[string]string, error) {
	sizes := func(x float64) string { return plan.SizeText(int(x)) }
	plots := map[string]string{}
	for i, plot := range []report.Lines{
		{
			Title: "Half a round trip, by message size (lower is better)", YTitle: "us",
			XTitle: "message size, bytes", XText: sizes,
		},
		{
			Title: "Stream in one direction, by message size (higher is better)", YTitle: "MB/s",
			XTitle: "message size, bytes", XText: sizes,
		},
		{
			Title: "8-byte messages, by messages in flight (higher is better)", YTitle: "messages/s",
			XTitle: "messages in flight, each window answered before the next",
			XText:  func(x float64) string { return fmt.Sprint(int(x)) },
		},
	} {
		plot.XFactor = 8
		for j := range r.Systems {
			plot.Series = append(plot.Series, r.line(&r.Systems[j], systems.Workloads[i]))
		}
		svg, err := plot.SVG()
		if err != nil {
			return nil, err
		}
		plots[PlotNames(r.Table)[i]] = svg
	}
	return plots, nil
}

// line holds a system's medians in one workload.
func (r *Report) line(about *systems.Info, w systems.Workload) report.Line {
	line := styleOf(about.ID)
	line.Label = about.Label
	for _, res := range r.Results {
		if res.System != about.ID || res.Workload != w || res.Median <= 0 {
			continue
		}
		x := res.SizeBytes
		if w == systems.Rate {
			x = res.Window
		}
		line.X, line.Y = append(line.X, float64(x)), append(line.Y, res.Median)
	}
	return line
}
