package scenario

import (
	"bytes"
	"flag"
	"os"
	"path/filepath"
	"regexp"
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

// TestRulesAreCited: a scenario is worth what the rule is worth that it pins.
func TestRulesAreCited(t *testing.T) {
	cite := regexp.MustCompile(`docs/protocol\.md section \d+|RFC \d+|usnic|architecture`)
	for _, path := range files(t) {
		data, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := ParseFile(data)
		if err != nil {
			t.Errorf("%s: %v", path, err)
			continue
		}
		if !cite.MatchString(f.Rule) {
			t.Errorf("%s: the rule names no place where it stands: %q", path, f.Rule)
		}
	}
}

// TestSameTwice: a script gives the same trace whenever it runs.
func TestSameTwice(t *testing.T) {
	data, err := os.ReadFile(files(t)[0])
	if err != nil {
		t.Fatal(err)
	}
	f, err := ParseFile(data)
	if err != nil {
		t.Fatal(err)
	}
	s, err := Parse(f.Script)
	if err != nil {
		t.Fatal(err)
	}
	var first, second bytes.Buffer
	if err := s.Run(&first); err != nil {
		t.Fatal(err)
	}
	if err := s.Run(&second); err != nil {
		t.Fatal(err)
	}
	if err := Compare(first.String(), second.String()); err != nil {
		t.Error(err)
	}
}
