package main

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"gobtl/internal/report"
	"gobtl/test/patch"
)

// Every fault of the table must still have its place in the sources, exactly one, and compile.
func TestMutationsApply(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	src := patch.NewSources(root)
	edits := map[string][][]*patch.Edit{}
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
		edits[m.in] = append(edits[m.in], []*patch.Edit{e})
	}
	for dir, faults := range edits {
		if err := src.Compile(dir, faults...); err != nil {
			t.Error(err)
		}
	}
	if len(names) < 20 {
		t.Errorf("only %d faults", len(names))
	}
}

// The table in the README is of these faults.
func TestReadmeNamesAll(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(root, "test", "sim", "README.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.Between(data, marker, ""); err != nil {
		t.Fatal(err)
	}
	table := string(data)
	for _, m := range mutations() {
		if !strings.Contains(table, "| "+m.name+" | "+m.fault+" |") {
			t.Errorf("%s is not in the table; run: go run ./test/sim/mutate --rewrite", m.name)
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

// A test whose fault makes it run for ever ends itself, and the fault counts as undecided.
func TestEndlessTest(t *testing.T) {
	dir := t.TempDir()
	for name, text := range map[string]string{
		"go.mod":    "module endless\n",
		"x_test.go": "package x\n\nimport \"testing\"\n\nfunc TestX(*testing.T) { select {} }\n",
	} {
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	w := &worker{o: &options{Limit: time.Hour}, ctx: t.Context(), root: dir, dir: t.TempDir()}
	if err := w.overlay(); err != nil {
		t.Fatal(err)
	}
	out, err := w.run(time.Hour, "go", testArgs(". -run TestX", time.Millisecond)...)
	if err == nil || !strings.Contains(out, testTimedOut) {
		t.Errorf("%v: %s", err, out)
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

func TestCommandLine(t *testing.T) {
	for _, o := range []options{
		{Only: []string{"no-such-fault"}}, {Rewrite: true, Only: []string{"no-wrap"}},
	} {
		if err := o.run(); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if chosen, err := choose([]string{"no-wrap", "slot-only"}); err != nil || len(chosen) != 2 ||
		chosen[1].name != "slot-only" {
		t.Errorf("%v, %v", chosen, err)
	}
}

func TestMarkdown(t *testing.T) {
	m := mutation{name: "x", fault: "is wrong"}
	got := markdown([]result{
		{mutation: m, by: bySwarm, seeds: 3, said: "a `b`"},
		{mutation: m, by: "go test ./p -run A|B"},
		{mutation: m},
	}, &options{Seeds: 5, First: 1})
	for _, want := range []string{
		"| x | is wrong | swarm | 3 | `a 'b'` |\n", "| x | is wrong | `./p -run A\\|B` |", "| nothing |",
		"Of 3 faults the swarm notices 1 within 5 seeds",
	} {
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
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
