package compare

import (
	"fmt"

	"gobtl/cmd/btlbench/systems"
	"gobtl/internal/report"
)

// Name identifies the lines of the table in a document, and is a part of the names of its files.
func (r *Report) Name() string {
	if r.Table == systems.OneHost {
		return "compare-host"
	}
	return "compare"
}

func (r *Report) command() string {
	if r.Table == systems.OneHost {
		return "make compare-host"
	}
	return "make compare"
}

// UpdateDocs returns a document in which the summary of the report, with links to the plots,
// replaces the text between the report's markers.
func (r *Report) UpdateDocs(doc []byte) ([]byte, error) {
	var plots []string
	for _, name := range PlotNames(r.Table) {
		plots = append(plots, report.PlotPath(name))
	}
	return report.Between(doc, r.Name(), fmt.Sprintf(
		"Measured %s on %s (%d CPUs), %s %s, with `%s`.\n\n```text\n%s```\n\n%s",
		r.StartedAt.Format("2006-01-02"), r.Machine.CPUModel, r.Machine.CPUs, r.Machine.OS,
		r.Machine.Kernel, r.command(), r.brief(), report.Links(plots)))
}
