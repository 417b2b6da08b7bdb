package report

import (
	"bytes"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
)

// Between returns a document in which content replaces the text between the lines "<!-- name:begin
// -->" and "<!-- name:end -->". Between returns an error if one of the two marker lines (begin and
// end) is missing in the document.
func Between(doc []byte, name, content string) ([]byte, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	_, after, okEnd := bytes.Cut(rest, []byte(end))
	if !ok || !okEnd {
		return nil, fmt.Errorf("no lines %s and %s", strings.TrimSpace(begin), end)
	}
	return slices.Concat(before, []byte(begin+content+end), after), nil
}

// Links returns Markdown text that shows plots as images. The given paths of the plots must be
// relative to the document.
func Links(plots []string) string {
	var b strings.Builder
	for _, plot := range plots {
		fmt.Fprintf(&b, "![%s](%s)\n\n", strings.TrimSuffix(path.Base(plot), ".svg"), plot)
	}
	return b.String()
}

// PlotFolder returns the directory of a document's plots, which is next to the document.
func PlotFolder(document string) string { return filepath.Join(filepath.Dir(document), "plots") }

// PlotPath returns the path of a plot relative to the document that shows the plot.
func PlotPath(name string) string { return "plots/" + name }

// WriteFiles writes the files in the map, whose keys are paths, creates missing directories, and
// returns the sorted paths. If WriteFiles returns an error, some of the files might have been
// written.
func WriteFiles(files map[string][]byte) (paths []string, err error) {
	for name, data := range files {
		if err := os.MkdirAll(filepath.Dir(name), 0o755); err != nil {
			return nil, err
		}
		if err := os.WriteFile(name, data, 0o644); err != nil {
			return nil, err
		}
		paths = append(paths, name)
	}
	slices.Sort(paths)
	return paths, nil
}
