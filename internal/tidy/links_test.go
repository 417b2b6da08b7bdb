package tidy

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"
)

var (
	// link finds the target of a link of Markdown.
	link = regexp.MustCompile(`\]\(([^)\s]+)\)`)
	// fence finds a block of code.
	fence = regexp.MustCompile("(?ms)^```.*?^```$")
	// heading finds a heading.
	heading = regexp.MustCompile(`(?m)^#+ (.*)$`)
	// unlinked finds what the anchor of a heading leaves out.
	unlinked = regexp.MustCompile(`[^\p{L}\p{N}_\- ]`)
)

// brokenLinks returns the links of a page that lead to no file, or to no heading of a page. The
// argument pages has every page of Markdown by its path, and exists tells whether there is a file
// or folder at a path.
func brokenLinks(name string, pages map[string]string, exists func(string) bool) (broken []string) {
	text := strings.ReplaceAll(fence.ReplaceAllString(pages[name], ""), "\n", " ")
	for _, m := range link.FindAllStringSubmatch(text, -1) {
		target, anchor, _ := strings.Cut(m[1], "#")
		if strings.Contains(target, "://") {
			continue
		}
		to := name
		if target != "" {
			to = path.Join(path.Dir(name), target)
		}
		switch page, isPage := pages[to]; {
		case !exists(to):
			broken = append(broken, m[1]+": no such file")
		case anchor != "" && isPage && !anchors(page)[anchor]:
			broken = append(broken, m[1]+": no such heading")
		}
	}
	return broken
}

// anchors returns the names under which links find the headings of a page.
func anchors(page string) map[string]bool {
	names := make(map[string]bool)
	for _, m := range heading.FindAllStringSubmatch(fence.ReplaceAllString(page, ""), -1) {
		name := unlinked.ReplaceAllString(strings.ToLower(m[1]), "")
		names[strings.ReplaceAll(name, " ", "-")] = true
	}
	return names
}

func TestBrokenLinks(t *testing.T) {
	t.Parallel()
	pages := map[string]string{
		"docs/a.md": "[b](b.md#two-words) [c](../c.go) [here](#a) [web](https://example.org/x#y)\n# A\n",
		"docs/b.md": "[a](a.md#b) [no](no.md) [wrapped\n](../no.go)\n## Two words!\n" +
			"```\n[](no)\n# a\n```\n",
	}
	exists := func(name string) bool { return pages[name] != "" || name == "c.go" }
	for name, want := range map[string][]string{
		"docs/a.md": nil,
		"docs/b.md": {"a.md#b: no such heading", "no.md: no such file", "../no.go: no such file"},
	} {
		if got := brokenLinks(name, pages, exists); fmt.Sprint(got) != fmt.Sprint(want) {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// TestLinks checks that every link of a page to a file, a folder or a heading leads there.
func TestLinks(t *testing.T) {
	t.Parallel()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	pages, found := make(map[string]string), make(map[string]bool)
	for _, f := range files {
		if path.Ext(f.Path) == ".md" {
			pages[f.Path] = string(f.Data)
		}
		for name := f.Path; name != "."; name = path.Dir(name) {
			found[name] = true
		}
	}
	if len(pages) < 30 || pages["docs/README.md"] == "" {
		t.Fatalf("%d pages found: is this the repository?", len(pages))
	}
	for name := range pages {
		for _, b := range brokenLinks(name, pages, func(file string) bool { return found[file] }) {
			t.Errorf("%s: %s", name, b)
		}
	}
}
