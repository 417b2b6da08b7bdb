package compare

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/plan"
	"gobtl/internal/report"
)

// Name is the name of the report's section in a document, and of the report's files.
const Name = "compare-mpi"

// goal is a target for the ratio of package mpi's value at a point to another value. If own is set,
// the other value is that of the transport without package mpi, and otherwise the better value of
// the two other MPI libraries.
type goal struct {
	Point
	own   bool
	least bool // limit is a minimum; else a maximum
	limit float64
}

var goals = []goal{
	{Point{"latency", 8, 2}, true, false, 1.15},
	{Point{"latency", 8, 2}, false, false, 1},
	{Point{"mbw_mr", 8, 2}, false, true, 10},
	{Point{"bw", m, 2}, true, true, .9},
	{Point{"barrier", 0, 2}, false, false, 1},
	{Point{"allreduce", 8, 2}, false, false, 1},
	{Point{"allreduce", 8, 8}, false, false, 1.2},
	{Point{"allreduce", m, 8}, false, false, 1.2},
}

// Text returns the report as tables, without the goals.
func (r *Report) Text() string {
	if r.Layers {
		return r.layersText(layerMTUs)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "Medians of %d rounds of %s; the ranks are pinned round-robin to CPUs %s.\n"+
		"x: gobtl relative to the better other system. Units: us; bw MB/s; mbw_mr messages/s.\n%s.\n",
		r.Rounds, r.Each, r.CPUs, r.versions())
	if r.busy() {
		fmt.Fprintf(&b, "Competing load: %s.\n", r.Beside.Description())
	}
	b.WriteString("\n" + r.figures().String() + r.failures())
	return b.String()
}

// Goals returns the table of the goals, or an empty string if the report has neighbours.
func (r *Report) Goals() string {
	if r.busy() {
		return ""
	}
	return "\n" + r.goals().String()
}

func (r *Report) versions() string {
	var list []string
	for _, s := range []string{openMPI, mpich} {
		if v := r.Versions[s]; v != "" {
			list = append(list, s+" "+v+" over TCP")
		}
	}
	return strings.Join(list, ", ")
}

func (r *Report) figures() *report.Table {
	last := []string{btlOwn}
	if r.busy() {
		last = []string{gobtlEvent, tcpWait, tcpPoll}
	}
	t := &report.Table{
		Heads: [][]string{append([]string{"test", "ranks", "size", gobtl, openMPI, mpich, "x"}, last...)},
		Left:  []int{0},
	}
	points := report.InOrder(r.Figures, func(f *Figure) Point { return f.Point })
	above := ""
	for _, p := range points {
		name := p.Test
		if name == above {
			name = ""
		}
		above = p.Test
		row := []string{
			name, strconv.Itoa(p.Ranks), plan.SizeText(p.Size), text(r.value(gobtl, p)),
			text(r.value(openMPI, p)), text(r.value(mpich, p)), ratio(r.value(gobtl, p), r.better(p)),
		}
		for _, system := range last {
			row = append(row, text(r.value(system, p)))
		}
		t.Rows = append(t.Rows, row)
	}
	return t
}

// goals returns the table of the goals.
func (r *Report) goals() *report.Table {
	t := &report.Table{Heads: [][]string{{"asked for", "is", "reached"}}, Left: []int{0, 2}}
	for _, g := range goals {
		of, by := r.better(g.Point), "the better's"
		if g.own {
			of, by = r.value(btlOwn, g.Point), "btl's own"
		}
		sign := "at most"
		if g.least {
			sign = "at least"
		}
		what := fmt.Sprintf("%s of %s, %d ranks: %s %.4g of %s", g.Test, plan.SizeText(g.Size), g.Ranks,
			sign, g.limit, by)
		reached := "not measured"
		if mine := r.value(gobtl, g.Point); mine > 0 && of > 0 {
			reached = "no"
			if mine/of == g.limit || g.least == (mine/of > g.limit) {
				reached = "yes"
			}
		}
		t.Rows = append(t.Rows, []string{what, ratio(r.value(gobtl, g.Point), of), reached})
	}
	return t
}

// The function text formats a value, where 0 means that there is none.
func text(x float64) string {
	switch {
	case x == 0:
		return "-"
	case x >= 100:
		return strconv.FormatFloat(x, 'f', 0, 64)
	}
	return strconv.FormatFloat(x, 'f', -1, 64)
}

func ratio(x, by float64) string {
	if x == 0 || by == 0 {
		return "-"
	}
	return strconv.FormatFloat(x/by, 'f', 2, 64)
}

// WriteJSON writes the report as one JSON document.
func (r *Report) WriteJSON(w io.Writer) error {
	e := json.NewEncoder(w)
	e.SetIndent("", "  ")
	return e.Encode(r)
}

// PlotNames lists the file names of the plots.
var PlotNames = []string{"mpi-latency.svg", "mpi-bandwidth.svg", "mpi-allreduce.svg"}

// Plots returns the plots by file name. A report with neighbours has no plots.
func (r *Report) Plots() (map[string]string, error) {
	if r.busy() {
		return nil, nil
	}
	series := []report.Line{
		{Label: gobtl, Color: report.Blue, Width: 2.8, Mark: report.Circle},
		{Label: openMPI, Color: report.Vermilion, Width: 1.4, Mark: report.Triangle},
		{Label: mpich, Color: report.Purple, Width: 1.4, Mark: report.Square},
	}
	plots := map[string]string{}
	for i, what := range []struct {
		test, title, unit string
		ranks             []int
	}{
		{"latency", "Half a round trip, by message size (lower is better)", "us", []int{2}},
		{"bw", "Windows of 64 messages, by message size (higher is better)", "MB/s", []int{2}},
		{"allreduce", "Allreduce of 2 (lines) and of 8 ranks (dashes) on 2 CPUs", "us", []int{2, 8}},
	} {
		plot := report.Lines{
			Title: what.title, YTitle: what.unit, XTitle: "bytes", XFactor: 8,
			XText: func(x float64) string { return plan.SizeText(int(x)) },
		}
		for _, ranks := range what.ranks {
			for _, line := range series {
				if ranks != 2 {
					line.Label, line.Dashes = line.Label+fmt.Sprintf(", %d ranks", ranks), []float64{5, 3}
				}
				for _, f := range r.Figures {
					name, _, _ := strings.Cut(line.Label, ",")
					if f.Test == what.test && f.Ranks == ranks && f.System == name && f.Median > 0 {
						line.X, line.Y = append(line.X, float64(f.Size)), append(line.Y, f.Median)
					}
				}
				plot.Series = append(plot.Series, line)
			}
		}
		svg, err := plot.SVG()
		if err != nil {
			return nil, err
		}
		plots[PlotNames[i]] = svg
	}
	return plots, nil
}

// UpdateDocs returns a document in which the report replaces the text between its markers. Of the
// layers, the document has only the rows with the MTU of Ethernet.
func (r *Report) UpdateDocs(doc []byte) ([]byte, error) {
	var plots []string
	target, text := "busy", r.Text()
	if r.Layers {
		text = r.layersText([]int{ethernetMTU})
	}
	if !r.busy() {
		target = Name
		for _, name := range PlotNames {
			plots = append(plots, report.PlotPath(name))
		}
	}
	return report.Between(doc, r.Named(), fmt.Sprintf(
		"Measured %s on %s (%d CPUs), %s %s, with `make %s`.\n\n```text\n%s```\n\n%s",
		r.StartedAt.Format("2006-01-02"), r.Machine.CPUModel, r.Machine.CPUs, r.Machine.OS,
		r.Machine.Kernel, target, text, report.Links(plots)))
}
