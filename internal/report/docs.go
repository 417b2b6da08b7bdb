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
// -->" and "<!-- name:end -->". If a marker line is missing, Between returns an error.
func Between(doc []byte, name, content string) ([]byte, error) {
	begin, end := "<!-- "+name+":begin -->\n", "<!-- "+name+":end -->"
	before, rest, ok := bytes.Cut(doc, []byte(begin))
	_, after, okEnd := bytes.Cut(rest, []byte(end))
	if !ok || !okEnd {
		return nil, fmt.Errorf("no lines %s and %s", strings.TrimSpace(begin), end)
	}
	return slices.Concat(before, []byte(begin+content+end), after), nil
}

// Links returns Markdown images of plots, by their paths relative to the document.
func Links(plots []string) string {
	var b strings.Builder
	for _, plot := range plots {
		fmt.Fprintf(&b, "![%s](%s)\n\n", strings.TrimSuffix(path.Base(plot), ".svg"), plot)
	}
	return b.String()
}

// PlotFolder is the directory of a document's plots, beside the document.
func PlotFolder(document string) string { return filepath.Join(filepath.Dir(document), "plots") }

// PlotPath is the relative path of a plot in the document's links.
func PlotPath(name string) string { return "plots/" + name }

// WriteFiles writes files by their paths, makes their directories, and returns the sorted paths.
// After an error of WriteFiles, some of the files may have been written.
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
