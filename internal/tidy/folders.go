package tidy

import (
	"regexp"
	"slices"
	"strings"
)

// foldersFile is the document with the table of all directories, and foldersHead is the beginning
// of this table's first line. The first column of the table of directories contains names of
// directories in backquotes. A directory name that ends in "/..." stands for all directories below
// it.
const (
	foldersFile = "docs/architecture.md"
	foldersHead = "| folder |"
)

var quotedName = regexp.MustCompile("`([^`]+)`")

// folders checks that the table of directories in docs/architecture.md contains each directory with
// Go code.
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
