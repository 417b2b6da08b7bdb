package scenario

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

var rewrite = flag.Bool("rewrite", false, "write the traces of the scenarios anew")

// files lists the scenario files.
func files(tb testing.TB) []string {
	tb.Helper()
	all, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(all) == 0 {
		tb.Fatalf("no scenarios: %v", err)
	}
	return all
}

// TestScenarios runs every file, and compares its trace with the golden one.
func TestScenarios(t *testing.T) {
	for _, path := range files(t) {
		t.Run(strings.TrimSuffix(filepath.Base(path), ".txtar"), func(t *testing.T) {
			data, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			f, err := ParseFile(data)
			if err != nil {
				t.Fatal(err)
			}
			if *rewrite {
				f.Trace = ""
			}
			trace, err := f.Run()
			if *rewrite && strings.HasPrefix(errorText(err), "trace differs") {
				if err = os.WriteFile(path, WithTrace(data, trace), 0o644); err == nil {
					return
				}
			}
			if err != nil {
				t.Fatalf("%v\n%s", err, trace)
			}
		})
	}
}

func errorText(err error) string {
	if err == nil {
		return ""
	}
	return err.Error()
}

// TestRulesAreCited: a scenario is worth what the rule is worth that it pins, so the rule must
// stand where the scenario says.
func TestRulesAreCited(t *testing.T) {
	page, err := os.ReadFile("../../../docs/protocol.md")
	if err != nil {
		t.Fatal(err)
	}
	sections := map[string]string{}
	for _, s := range strings.Split(string(page), "\n## ")[1:] {
		number, text, _ := strings.Cut(s, ". ")
		sections[number] = text
	}
	place := regexp.MustCompile(`docs/protocol\.md section \d+|RFC \d+|usnic|architecture`)
	cite := regexp.MustCompile(`section (\d+)(?:, ([A-Z][a-z]+(?:-[a-z]+| [a-z]+)*))?`)
	for _, path := range files(t) {
		f := readFile(t, path)
		if !place.MatchString(f.Rule) {
			t.Errorf("%s: the rule names no place where it stands: %q", path, f.Rule)
		}
		for _, m := range cite.FindAllStringSubmatch(f.Rule, -1) {
			text, ok := sections[m[1]]
			name := strings.TrimSuffix(m[2], " and")
			name, _, _ = strings.Cut(name, " and section")
			if !ok || name != "" && !strings.Contains(text, "**"+name) {
				t.Errorf("%s: docs/protocol.md has no section %s with a rule %q", path, m[1], name)
			}
		}
	}
}

func readFile(tb testing.TB, path string) *File {
	tb.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		tb.Fatal(err)
	}
	f, err := ParseFile(data)
	if err != nil {
		tb.Fatalf("%s: %v", path, err)
	}
	return f
}

// TestSameTwice: a script gives the same trace whenever it runs.
func TestSameTwice(t *testing.T) {
	f := readFile(t, "testdata/errors-and-storms.txtar")
	s, err := Parse(f.Script)
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	for _, out := range []*bytes.Buffer{&first, &second} {
		if err := s.Run(out); err != nil {
			t.Fatal(err)
		}
	}
	if err := Compare(first.String(), second.String()); err != nil {
		t.Error(err)
	}
}

// TestWrongGolden: a golden trace that is not what happens makes the scenario fail, wherever it is
// wrong; so does a line of it that is missing, and one that is too much.
func TestWrongGolden(t *testing.T) {
	golden := readFile(t, "testdata/lost-ack.txtar")
	if _, err := golden.Run(); err != nil {
		t.Fatal(err)
	}
	lines := strings.SplitAfter(golden.Trace, "\n")
	lines = lines[:len(lines)-1]
	if len(lines) < 5 {
		t.Fatalf("a trace of %d lines", len(lines))
	}
	for i := range lines {
		for what, trace := range map[string][]string{
			"altered":  slices.Replace(slices.Clone(lines), i, i+1, "x"+lines[i]),
			"missing":  slices.Delete(slices.Clone(lines), i, i+1),
			"too much": slices.Insert(slices.Clone(lines), i, "one more\n"),
		} {
			f := *golden
			f.Trace = strings.Join(trace, "")
			want := fmt.Sprintf("line %d:", i+1)
			if _, err := f.Run(); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("line %d %s: %v", i+1, what, err)
			}
		}
	}
	if again := WithTrace(WithTrace(nil, "x\n"), golden.Trace); !bytes.Contains(again,
		[]byte(golden.Trace)) || bytes.Contains(again, []byte("x\n")) {
		t.Errorf("rewritten: %s", again)
	}
}
