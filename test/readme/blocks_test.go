package readme

import (
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// root is the top of the tree.
const root = "../.."

// blocks returns the fenced blocks of a language in a section of a Markdown text.
func blocks(text, section, language string) (found []string) {
	_, rest, ok := strings.Cut(text, "\n## "+section+"\n")
	if !ok {
		return nil
	}
	rest, _, _ = strings.Cut(rest, "\n## ")
	for {
		_, behind, ok := strings.Cut(rest, "\n```"+language+"\n")
		if !ok {
			return found
		}
		block, after, ok := strings.Cut(behind, "\n```")
		if !ok {
			return found
		}
		found, rest = append(found, block+"\n"), after
	}
}

func TestBlocks(t *testing.T) {
	t.Parallel()
	const text = "# x\n\n## A\n\n```sh\none\n```\n\n```go\ntwo\n```\n\n## B\n\n```sh\nthree\n```\n"
	for _, tc := range []struct{ section, language, want string }{
		{"A", "sh", "one\n"},
		{"A", "go", "two\n"},
		{"B", "sh", "three\n"},
		{"B", "go", ""},
		{"C", "sh", ""},
	} {
		got := strings.Join(blocks(text, tc.section, tc.language), "|")
		if got != tc.want {
			t.Errorf("%s, %s: %q, want %q", tc.section, tc.language, got, tc.want)
		}
	}
}

// read returns the text of a file of the tree.
func read(t *testing.T, name string) string {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(root, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(data)
}

// TestEveryBlockIsRun fails for a block of the README that no test of this package runs.
func TestEveryBlockIsRun(t *testing.T) {
	t.Parallel()
	text := read(t, "README.md")
	all := len(regexp.MustCompile("(?m)^```[a-z]+$").FindAllString(text, -1))
	run := len(blocks(text, "Hello", "go")) + len(blocks(text, "Install", "sh"))
	if all != run || run != helloBlocks+installBlocks {
		t.Errorf("%d blocks of code, of which %d are run; want %d", all, run, helloBlocks+installBlocks)
	}
}

// TestFirstQuestions: what a stranger looks for first is in the README.
func TestFirstQuestions(t *testing.T) {
	t.Parallel()
	text := read(t, "README.md")
	for question, want := range map[string]string{
		"may it be used":           "BSD-3-Clause",
		"what is imported":         `import "gobtl"`,
		"how mature it is":         "no release yet",
		"on which systems":         "## Systems",
		"a peer that restarted":    "docs/how-to/peer-restarts.md",
		"what make test installs":  "`make test` installs",
		"how long make test takes": "minutes",
		"tests without all that":   "make check",
		"which packets are safe":   "not encrypted",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("%s: the README lacks %q", question, want)
		}
	}
	if lines := strings.Count(text, "\n"); lines > linesMax {
		t.Errorf("the README has %d lines, want %d at most", lines, linesMax)
	}
}

// linesMax is what the README may have: two screens.
const linesMax = 125
