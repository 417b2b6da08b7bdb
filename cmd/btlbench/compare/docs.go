package compare

import (
	"bytes"
	"errors"
	"fmt"
	"strings"
)

// The lines between which a run writes into a document.
const (
	docsBegin = "<!-- compare:begin -->"
	docsEnd   = "<!-- compare:end -->"
)

// UpdateDocs returns a document with what stands between its markers replaced by the report; plots
// are the paths of the plots as the document shall link them.
func (r *Report) UpdateDocs(doc []byte, plots []string) ([]byte, error) {
	before, rest, ok := bytes.Cut(doc, []byte(docsBegin+"\n"))
	_, after, okEnd := bytes.Cut(rest, []byte(docsEnd))
	if !ok || !okEnd {
		return nil, errors.New("no lines " + docsBegin + " and " + docsEnd)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s\n", docsBegin)
	fmt.Fprintf(&b, "Measured %s on %s (%d CPUs), %s %s, with `make compare`.\n\n```text\n",
		r.StartedAt.Format("2006-01-02"), r.Machine.CPUModel, r.Machine.CPUs, r.Machine.OS,
		r.Machine.Kernel)
	b.WriteString(r.Table())
	b.WriteString("```\n\n")
	for _, plot := range plots {
		name := strings.TrimSuffix(plot[strings.LastIndexByte(plot, '/')+1:], ".svg")
		fmt.Fprintf(&b, "![%s](%s)\n\n", name, plot)
	}
	b.WriteString(docsEnd)
	return bytes.Join([][]byte{before, []byte(b.String()), after}, nil), nil
}
