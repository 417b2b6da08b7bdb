package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// systemPages are the pages that compare another system with gobtl, and the number of statements of
// the other system in each page.
var systemPages = map[string]int{
	"docs/reference/usnic.md": 64,
	"docs/reference/ucx.md":   91,
	"docs/reference/ska.md":   56,
	"docs/reference/vnic.md":  37,
}

var (
	// verdict matches the second column of a statement. A difference, and what is not there, must
	// have a reason.
	verdict = regexp.MustCompile(`^(yes\b|differs: \S|not: \S)`)
	// named matches a source file between backquotes.
	named = regexp.MustCompile("`([\\w/]+\\.(?:go|c))`")
)

// statements returns the number of statements in the tables of a page, and what is wrong with the
// statements. The argument exists reports whether the repository has a file.
func statements(page string, exists func(name string) bool) (count int, wrong []string) {
	table := false
	for line := range strings.Lines(page) {
		line = strings.TrimSpace(line)
		switch {
		case line == "| statement | gobtl |":
			table = true
		case !strings.HasPrefix(line, "|"):
			table = false
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !table || line == "| statement | gobtl |" || line == "|---|---|" {
			continue
		}
		count++
		if len(cells) != 2 || !verdict.MatchString(cells[1]) {
			wrong = append(wrong, fmt.Sprintf("no verdict, or no reason: %s", line))
		}
		for _, m := range named.FindAllStringSubmatch(line, -1) {
			if !exists(m[1]) {
				wrong = append(wrong, fmt.Sprintf("no file %s: %s", m[1], line))
			}
		}
	}
	return count, wrong
}

// TestSystemPages checks that each statement of the other systems has a verdict, and that the files
// that a verdict names exist.
func TestSystemPages(t *testing.T) {
	t.Parallel()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	exists := map[string]bool{}
	for _, f := range files {
		exists[f.Path] = true
	}
	pages := docPages(t)
	for name, want := range systemPages {
		count, wrong := statements(pages[name], func(name string) bool { return exists[name] })
		if count != want {
			t.Errorf("%s has %d statements, want %d", name, count, want)
		}
		for _, w := range wrong {
			t.Errorf("%s: %s", name, w)
		}
	}
}

// TestStatements checks what TestSystemPages finds.
func TestStatements(t *testing.T) {
	t.Parallel()
	const page = "# A page\n\n| statement | gobtl |\n|---|---|\n| a | yes |\n| b | differs: c |\n" +
		"| d | differs |\n| e | maybe |\n| f | yes: `a/b.go` |\n| g | yes: `a/c.go` |\n\n" +
		"| point | gobtl |\n|---|---|\n| x | y |\n"
	count, wrong := statements(page, func(name string) bool { return name == "a/b.go" })
	if count != 6 || len(wrong) != 3 || !strings.Contains(wrong[0], "| d |") ||
		!strings.Contains(wrong[1], "| e |") || !strings.Contains(wrong[2], "a/c.go") {
		t.Errorf("%d statements, wrong: %q", count, wrong)
	}
}

// libfabricPage lists the functions of libfabric that fabric/ofi calls.
const libfabricPage = "docs/reference/libfabric.md"

var (
	ofiListed = regexp.MustCompile("`(fi_[a-z_]+)`")
	ofiCalled = regexp.MustCompile(`\b(fi_[a-z_]+)\(|\{"(fi_[a-z_]+)", `)
	ofiRow    = regexp.MustCompile("(?m)^\\| \\w+ \\| `fi_.*$")
)

// TestLibfabricCalls compares the page's table of calls with the C files of fabric/ofi.
func TestLibfabricCalls(t *testing.T) {
	t.Parallel()
	listed, called := map[string]bool{}, map[string]bool{}
	for _, row := range ofiRow.FindAllString(docPages(t)[libfabricPage], -1) {
		for _, m := range ofiListed.FindAllStringSubmatch(row, -1) {
			listed[m[1]] = true
		}
	}
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if path.Dir(f.Path) != "fabric/ofi" || path.Ext(f.Path) != ".c" && path.Ext(f.Path) != ".h" {
			continue
		}
		for _, m := range ofiCalled.FindAllStringSubmatch(string(f.Data), -1) {
			called[m[1]+m[2]] = true
		}
	}
	if len(called) < 20 {
		t.Fatalf("%d functions found: is this the repository?", len(called))
	}
	for name := range called {
		if !listed[name] {
			t.Errorf("%s lacks %s", libfabricPage, name)
		}
	}
	for name := range listed {
		if !called[name] {
			t.Errorf("%s has %s, which fabric/ofi does not call", libfabricPage, name)
		}
	}
}
