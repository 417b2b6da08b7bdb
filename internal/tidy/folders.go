package tidy

import (
	"regexp"
	"slices"
	"strings"
)

// foldersFile is the document that describes each directory, and foldersHead is the beginning of
// the first line of the table in this document. A cell of the first column contains names of
// directories in backquotes, in the same format as in policies. A directory name that ends in
// "/..." includes all directories below.
const (
	foldersFile = "docs/architecture.md"
	foldersHead = "| folder |"
)

var quotedName = regexp.MustCompile("`([^`]+)`")

// folders checks that each directory with Go code is in the table of folders.
func (c *checker) folders(files []File) {
	at := slices.IndexFunc(files, func(f File) bool { return f.Path == foldersFile })
	if at < 0 {
		return // not the whole repository
	}
	named := foldersOf(string(files[at].Data))
	var missing []string
	for _, s := range c.sources {
		_, known := policyOf(s.dir)
		if known && !coversAny(named, s.dir) && !strings.Contains("/"+s.dir+"/", "/testdata/") {
			missing = append(missing, s.dir)
		}
	}
	slices.Sort(missing)
	for _, dir := range slices.Compact(missing) {
		c.report(foldersFile, 0, "folder", "%s is not in the table of folders", dir)
	}
}

func foldersOf(document string) (names []string) {
	inside := false
	for line := range strings.Lines(document) {
		switch {
		case strings.HasPrefix(line, foldersHead):
			inside = true
		case !strings.HasPrefix(line, "|"):
			inside = false
		case inside:
			cell, _, _ := strings.Cut(line[1:], "|")
			for _, m := range quotedName.FindAllStringSubmatch(cell, -1) {
				names = append(names, m[1])
			}
		}
	}
	return names
}
