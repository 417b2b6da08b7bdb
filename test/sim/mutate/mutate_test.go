package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
)

// Every fault of the table must still have its place in the sources, exactly one, and compile.
func TestMutationsApply(t *testing.T) {
	root, err := sourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	src := newSources(root)
	edits := map[string][]fault{}
	names := map[string]bool{}
	name := regexp.MustCompile(`^[a-z]+(-[a-z]+)*$`)
	for _, m := range mutations() {
		if !name.MatchString(m.name) || names[m.name] {
			t.Errorf("%q: a bad name, or twice in the table", m.name)
		}
		names[m.name] = true
		if m.fault == "" || m.old == "" || m.old == m.new {
			t.Errorf("%s: no fault", m.name)
		}
		if !strings.HasPrefix(m.test, "./") {
			t.Errorf("%s: no test that would notice: %q", m.name, m.test)
		}
		e, err := m.edit(src)
		if err != nil {
			t.Error(err)
			continue
		}
		edits[m.in] = append(edits[m.in], fault{m, e})
	}
	for dir, faults := range edits {
		checkTypes(t, filepath.Join(root, dir), faults)
	}
	if len(names) < 20 {
		t.Errorf("only %d faults", len(names))
	}
}

// The table in the README is of these faults.
func TestReadmeNamesAll(t *testing.T) {
	root, err := sourceRoot()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "test", "sim", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	_, table, ok := strings.Cut(string(data), markerBegin)
	table, _, ok2 := strings.Cut(table, markerEnd)
	if !ok || !ok2 {
		t.Fatalf("no table between %s and %s; run: go run ./test/sim/mutate -rewrite", markerBegin,
			markerEnd)
	}
	for _, m := range mutations() {
		if !strings.Contains(table, "| "+m.name+" | "+cell(m.fault)+" |") {
			t.Errorf("%s is not in the table; run: go run ./test/sim/mutate -rewrite", m.name)
		}
	}
	if strings.Contains(table, "| nothing |") {
		t.Error("a fault survives")
	}
}

func TestGist(t *testing.T) {
	failed := errors.New("exit status 1")
	for _, c := range []struct{ out, want string }{
		{"", "exit status 1"},
		{"--- FAIL: TestX (0.00s)\n    x_test.go:12: seven is not eight\nFAIL\n", "seven is not eight"},
		{
			"\nFAIL seed 7: at 1m2.5s: message 3 of b0/8: delivered twice\n  make replay SEED=7\n| a |\n",
			"message 3 of b0/8: delivered twice",
		},
		{"FAIL seed 7: panic: no\ngoroutine 1\n", "panic: no"},
		{strings.Repeat("x", 200), strings.Repeat("x", gistRunesMax) + "..."},
	} {
		if got := gist(c.out, failed); got != c.want {
			t.Errorf("%q: %q, want %q", c.out, got, c.want)
		}
	}
	if got := gist("anything", errLimit); got != errLimit.Error() {
		t.Error(got)
	}
}

func TestSeedOf(t *testing.T) {
	for _, c := range []struct {
		out  string
		want uint64
	}{
		{"seed 12: x", 3},
		{"FAIL seed=10", 1},
		{"SEED: 11", 2},
		{"nothing", 0},
		{"seed 3", 0},
		{"100 seeds", 0},
	} {
		if got := seedOf(c.out, 10); got != c.want {
			t.Errorf("%q: %d, want %d", c.out, got, c.want)
		}
	}
}

func TestRewrite(t *testing.T) {
	path := filepath.Join(t.TempDir(), "README.md")
	for _, c := range []struct{ before, after string }{
		{"a\n", "a\n\n" + markerBegin + "\nT\n" + markerEnd + "\n"},
		{"a\n" + markerBegin + "\nb\n", "a\n" + markerBegin + "\nT\n" + markerEnd + "\nb\n"},
		{
			"a " + markerBegin + "\nold\n" + markerEnd + "\nb\n",
			"a " + markerBegin + "\nT\n" + markerEnd + "\nb\n",
		},
	} {
		if err := os.WriteFile(path, []byte(c.before), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := rewrite(path, "T\n"); err != nil {
			t.Fatal(err)
		}
		if got, _ := os.ReadFile(path); string(got) != c.after {
			t.Errorf("%q became %q, want %q", c.before, got, c.after)
		}
	}
}

func TestCommandLine(t *testing.T) {
	for _, args := range [][]string{
		{"-only", "no-such-fault"}, {"-rewrite", "-only", "no-wrap"},
	} {
		if err := run(args); err == nil {
			t.Errorf("%q: no error", args)
		}
	}
	if chosen, err := choose("no-wrap,slot-only"); err != nil || len(chosen) != 2 ||
		chosen[1].name != "slot-only" {
		t.Errorf("%v, %v", chosen, err)
	}
}

// A program that does not end is stopped, and one that fails is seen.
func TestRun(t *testing.T) {
	if _, err := exec.LookPath("go"); err != nil {
		t.Fatal("needs the go command")
	}
	w := worker{o: &options{}, ctx: t.Context(), root: "."}
	if out, err := w.run(0, "go", "version"); !errors.Is(err, errLimit) {
		t.Errorf("%q, %v", out, err)
	}
	if _, err := w.run(1<<40, "go", "no-such-command"); err == nil {
		t.Error("no error")
	}
}
