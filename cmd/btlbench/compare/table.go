package compare

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	"gobtl/cmd/btlbench/plan"
	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

// Text formats the report as text of at most 100 columns.
func (r *Report) Text() string {
	var b strings.Builder
	if r.Interrupted {
		b.WriteString("interrupted: what follows is not all\n\n")
	}
	r.writeSummary(&b)
	r.writePings(&b)
	for _, w := range systems.Workloads {
		r.writeWorkload(&b, w)
	}
	r.writeNotes(&b)
	r.writeLeftOut(&b)
	return b.String()
}

// brief formats the report for a document, whose plots show what Text has for each size.
func (r *Report) brief() string {
	var b strings.Builder
	r.writeSummary(&b)
	r.writePings(&b)
	r.writeNotes(&b)
	return b.String()
}

// headline is the point of a workload that the summary shows, or the last measured point if that
// point was not measured.
func (r *Report) headline(w systems.Workload) (p systems.Point, ok bool) {
	const streamBytes = 1 << 20
	wanted := systems.Point{Workload: w, SizeBytes: systems.RateBytes, Window: 1}
	switch w {
	case systems.Stream:
		wanted.SizeBytes, wanted.Window = streamBytes, systems.StreamWindow(streamBytes)
	case systems.Latency:
	case systems.Rate:
		wanted.Window = 64
	}
	for _, res := range r.Results {
		if res.Workload == w && p != wanted {
			p, ok = res.Point, true
		}
	}
	return p, ok
}

// writeSummary writes one line for each system, with its medians at the headline points and their
// ratios to the best other system and to the bare fabric.
func (r *Report) writeSummary(b *strings.Builder) {
	rounds := fmt.Sprintf("Medians of %d rounds", r.Rounds)
	if r.Rounds == 1 {
		rounds = "One round"
	}
	b.WriteString(rounds + "; x: ratio to the best other system; /raw: ratio to the bare provider\n\n")
	g := report.Table{Left: []int{0}}
	header := []string{"system"}
	for _, w := range systems.Workloads {
		p, ok := r.headline(w)
		if !ok {
			continue
		}
		switch w {
		case systems.Latency:
			header = append(header, plan.SizeText(p.SizeBytes)+" B us", "p50")
		case systems.Stream:
			header = append(header, plan.SizeText(p.SizeBytes)+" MB/s")
		case systems.Rate:
			header = append(header, strconv.Itoa(p.Window)+" x 8 B k/s")
		}
		header = append(header, "x", "/raw")
	}
	g.Heads = [][]string{header}
	for i := range r.Systems {
		if about := &r.Systems[i]; about.Missing == "" {
			g.Rows = append(g.Rows, r.summaryRow(about.ID, about.Label))
		}
	}
	b.WriteString(g.String())
}

// writePings writes the state of the machine during the measurements, and the number of
// measurements in an unusual state.
func (r *Report) writePings(b *strings.Builder) {
	if r.UsualPingNs == 0 {
		return
	}
	state := machineState{usualNs: r.UsualPingNs}
	all, other := 0, 0
	for _, res := range r.Results {
		for _, v := range res.Rounds {
			all++
			if !state.usual(v.PingNs) {
				other++
			}
		}
	}
	fmt.Fprintf(b, "\nA cache line took about %.0f ns from one CPU to the other, except in %d of %d "+
		"measurements.\n", r.UsualPingNs, other, all)
}

func (r *Report) summaryRow(id, label string) []string {
	row := []string{label}
	for _, w := range systems.Workloads {
		p, ok := r.headline(w)
		if !ok {
			continue
		}
		res := r.find(id, p)
		if res == nil {
			res = &Result{}
		}
		row = append(row, figure(w, res.Median))
		if w == systems.Latency {
			row = append(row, figure(w, res.P50Us))
		}
		row = append(row, ratioText(res.ToBest), ratioText(res.ToRaw))
	}
	return row
}

// figure formats a median with three significant digits, or with all digits before the point, or as
// "-" if there is none.
func figure(w systems.Workload, x float64) string {
	if w == systems.Rate {
		x /= 1e3
	}
	switch {
	case x == 0:
		return "-"
	case x < 10:
		return strconv.FormatFloat(x, 'f', 2, 64)
	case x < 100:
		return strconv.FormatFloat(x, 'f', 1, 64)
	}
	return strconv.FormatFloat(x, 'f', 0, 64)
}

func ratioText(ratio *float64) string {
	if ratio == nil {
		return ""
	}
	if *ratio >= 100 {
		return strconv.FormatFloat(*ratio, 'f', 0, 64)
	}
	return strconv.FormatFloat(*ratio, 'f', 2, 64)
}

var workloadTitles = map[systems.Workload]string{
	systems.Latency: "Latency: half a mean round trip in us, by message size",
	systems.Stream:  "Stream: MB/s in one direction, by message size",
	systems.Rate:    "Rate: 1000 messages/s of 8 B, by messages in flight",
}

// writeWorkload writes the medians of one workload, with a line for each system and a column for
// each point.
func (r *Report) writeWorkload(b *strings.Builder, w systems.Workload) {
	var columns []systems.Point
	for _, res := range r.Results {
		if res.Workload == w && !slices.Contains(columns, res.Point) {
			columns = append(columns, res.Point)
		}
	}
	if len(columns) == 0 {
		return
	}
	g := report.Table{Left: []int{0}}
	header := []string{"system"}
	for _, p := range columns {
		if w == systems.Rate {
			header = append(header, strconv.Itoa(p.Window))
		} else {
			header = append(header, plan.SizeText(p.SizeBytes))
		}
	}
	g.Heads = [][]string{header}
	for i := range r.Systems {
		about := &r.Systems[i]
		row := []string{about.Label}
		some := false
		for _, p := range columns {
			cell := "-"
			if res := r.find(about.ID, p); res != nil {
				cell, some = figure(w, res.Median), true
			}
			row = append(row, cell)
		}
		if some {
			g.Rows = append(g.Rows, row)
		}
	}
	b.WriteString("\n" + workloadTitles[w] + "\n\n")
	b.WriteString(g.String())
}

// note is a line below the tables, with the systems to which it applies.
type note struct {
	text    string
	systems []string
}

// notes collects notes in the order of their first systems.
type notes []note

func (n *notes) add(label, text string) {
	for i := range *n {
		if (*n)[i].text == text {
			(*n)[i].systems = append((*n)[i].systems, label)
			return
		}
	}
	*n = append(*n, note{text, []string{label}})
}

func (n *notes) write(b *strings.Builder, prefix string) {
	for i := range *n {
		b.WriteString(report.Wrap(prefix + strings.Join((*n)[i].systems, "; ") + ": " + (*n)[i].text))
	}
}

// writeNotes writes the versions of the systems, missing systems and failures.
func (r *Report) writeNotes(b *strings.Builder) {
	b.WriteString("\n")
	var versions, missing notes
	for i := range r.Systems {
		about := &r.Systems[i]
		switch {
		case about.Missing == "":
			text := about.Version
			if about.Note != "" {
				text += "; " + about.Note
			}
			versions.add(about.Label, text)
		case about.Package != "":
			missing.add(about.Label, about.Missing+" (Debian: "+about.Package+")")
		default:
			missing.add(about.Label, about.Missing)
		}
	}
	versions.write(b, "")
	missing.write(b, "not measured: ")
	for i := range r.Failures {
		b.WriteString(report.Wrap("failed: " + r.Failures[i].describe(r)))
	}
}

// writeLeftOut writes the points that systems do not support.
func (r *Report) writeLeftOut(b *strings.Builder) {
	var left notes
	for i := range r.Systems {
		about := &r.Systems[i]
		for _, text := range r.leftOut(about.ID) {
			left.add(about.Label, text)
		}
	}
	left.write(b, "left out: ")
}

// leftOut returns the points that a system does not support, with a text for each reason.
func (r *Report) leftOut(id string) []string {
	var reasons []string
	which := map[string][]string{} // by reason, what is left out of each workload
	for _, w := range systems.Workloads {
		sizes := map[string][]string{}
		all := !slices.ContainsFunc(r.Results, func(res *Result) bool {
			return res.System == id && res.Workload == w
		})
		for i := range r.Skipped {
			s := &r.Skipped[i]
			if s.System != id || s.Workload != w {
				continue
			}
			if !slices.Contains(reasons, s.Reason) {
				reasons = append(reasons, s.Reason)
			}
			size := plan.SizeText(s.SizeBytes)
			if w == systems.Rate {
				size = strconv.Itoa(s.Window)
			}
			sizes[s.Reason] = append(sizes[s.Reason], size)
		}
		for reason, list := range sizes {
			text := string(w)
			if !all || len(sizes) > 1 {
				text += " of " + strings.Join(list, ", ")
			}
			which[reason] = append(which[reason], text)
		}
	}
	var texts []string
	for _, reason := range reasons {
		texts = append(texts, strings.Join(which[reason], ", ")+": "+reason)
	}
	return texts
}
