package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

// laboratory finds words that report what a machine did at one time, or what was tried.
var laboratory = regexp.MustCompile(`(?i)\b(` + strings.Join([]string{
	`yesterday`, `today`, `calm`, `laborator\w*`, `(this|another|last) time`,
	`(this|last|earlier) session`, `(slow|fast|busy|quiet|noisy|other) (hour|minute|state)s?`,
	`(hour|minute)s? (ago|before had)`, `(was|were) tried (and|in vain)`, `earlier (state|build|form)`,
	`(later|another|other) builds?`, `builds? of (then|that day)`, `run that was not finished`,
	`hour to hour`, `developed on`, `for minutes`, `before and since`,
}, "|") + `)\b`)

// date finds a day of a calendar.
var date = regexp.MustCompile(`\b20\d\d-[01]\d-[0-3]\d\b`)

// code finds text between backquotes.
var code = regexp.MustCompile("`[^`]*`")

// notes returns the parts of a page that are reports of single measurements. The caption of a table
// may begin with "Measured" and have a date.
func notes(page string) (found []string) {
	number := 0
	for line := range strings.Lines(page) {
		number++
		line = code.ReplaceAllString(line, "")
		if word := laboratory.FindString(line); word != "" {
			found = append(found, fmt.Sprintf("line %d: %q", number, word))
		}
		if day := date.FindString(line); day != "" && !strings.HasPrefix(line, "Measured "+day+" on ") {
			found = append(found, fmt.Sprintf("line %d: %s outside of a caption", number, day))
		}
	}
	return found
}

func TestNotes(t *testing.T) {
	t.Parallel()
	for line, want := range map[string]int{
		"The table has medians of five rounds.":                   0,
		"`Policy.Calm` is a name.":                                0,
		"Measured 2026-11-22 on a CPU, with `make compare`.":      0,
		"It was 4.6 us in a calm hour.":                           1,
		"In a slow state of the machine it took longer.":          1,
		"Measured by hand on 2026-11-22.":                         1,
		"It was measured with the build of then.":                 1,
		"On 2026-11-22 it was another time, and of other builds.": 2,
	} {
		if got := notes(line + "\n"); len(got) != want {
			t.Errorf("%q: %v, want %d", line, got, want)
		}
	}
}

// docPages are the README and the pages of docs.
func docPages(t *testing.T) map[string]string {
	t.Helper()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages := make(map[string]string)
	for _, f := range files {
		if f.Path == "README.md" || path.Ext(f.Path) == ".md" && strings.HasPrefix(f.Path, "docs/") {
			pages[f.Path] = string(f.Data)
		}
	}
	if len(pages) < 20 || pages["docs/README.md"] == "" {
		t.Fatalf("%d pages found: is this the repository?", len(pages))
	}
	return pages
}

// TestDocsAreNoLaboratoryBook checks that no page of the repository, except the list of changes,
// reports what was tried, or what a machine did at one time.
func TestDocsAreNoLaboratoryBook(t *testing.T) {
	t.Parallel()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		if path.Ext(f.Path) != ".md" || f.Path == "CHANGELOG.md" {
			continue
		}
		for _, note := range notes(string(f.Data)) {
			t.Errorf("%s: %s", f.Path, note)
		}
	}
}

// TestDocsHaveADoor checks that docs/README.md leads to every page of docs. Each page must begin
// with its title and a paragraph about its purpose.
func TestDocsHaveADoor(t *testing.T) {
	t.Parallel()
	pages := docPages(t)
	for name, page := range pages {
		if !strings.HasPrefix(name, "docs/") {
			continue
		}
		if link := "(" + strings.TrimPrefix(name, "docs/") + ")"; name != "docs/README.md" &&
			!strings.Contains(pages["docs/README.md"], link) {
			t.Errorf("docs/README.md does not lead to %s", name)
		}
		head := strings.SplitN(page, "\n", 4)
		if len(head) < 4 || !strings.HasPrefix(head[0], "# ") || head[1] != "" ||
			!strings.Contains(head[2], "This page ") {
			t.Errorf("%s: want a title, an empty line, and what \"This page \" is for", name)
		}
	}
}
