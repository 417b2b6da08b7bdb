package compare

import (
	"fmt"

	"gobtl/internal/report"
)

// docsName names the lines between which a run writes into a document.
const docsName = "compare"

// UpdateDocs returns a document with what stands between its markers replaced by the report, with
// links to the plots beside it.
func (r *Report) UpdateDocs(doc []byte) ([]byte, error) {
	var plots []string
	for _, name := range PlotNames() {
		plots = append(plots, report.PlotPath(name))
	}
	return report.Between(doc, docsName, fmt.Sprintf(
		"Measured %s on %s (%d CPUs), %s %s, with `make compare`.\n\n```text\n%s```\n\n%s",
		r.StartedAt.Format("2006-01-02"), r.Machine.CPUModel, r.Machine.CPUs, r.Machine.OS,
		r.Machine.Kernel, r.Table(), report.Links(plots)))
}
