package main

import (
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"gobtl/internal/report"
	"gobtl/test/patch"
	"gobtl/test/sim/matrix"
)

// Every mechanism of the tables must have its code and its trials, and what turns it off must apply
// and compile.
func TestTables(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	src := patch.NewSources(root)
	sets := map[string][][]*patch.Edit{}
	names := map[string]bool{}
	for _, m := range mechanisms() {
		if m.name == "" || names[m.name] {
			t.Errorf("%q: no name, or twice in the tables", m.name)
		}
		names[m.name] = true
		if n, err := linesOf(root, m.parts); err != nil || n < 2 {
			t.Errorf("%s: %d lines: %v", m.name, n, err)
		}
		if m.needed == "" && len(m.trials) == 0 {
			t.Errorf("%s: neither needed nor measured", m.name)
		}
		if len(m.trials) > 0 && (len(m.off) == 0) == (m.swap[1] == "") {
			t.Errorf("%s: want either a patch or a switch", m.name)
		}
		for i := range m.trials {
			checkTrial(t, &m, &m.trials[i])
		}
		edits, err := m.edits(src)
		if err != nil {
			t.Error(err)
			continue
		}
		byPackage := map[string][]*patch.Edit{}
		for i, e := range edits {
			byPackage[m.off[i].in] = append(byPackage[m.off[i].in], e)
		}
		for dir, set := range byPackage {
			sets[dir] = append(sets[dir], set)
		}
	}
	for dir, all := range sets {
		if err := src.Compile(dir, all...); err != nil {
			t.Error(err)
		}
	}
}

func checkTrial(t *testing.T, m *mechanism, trial *trial) {
	t.Helper()
	if trial.where == "" || trial.unit == "" {
		t.Errorf("%s: %+v", m.name, trial)
	}
	if trial.simulated() {
		if _, err := matrix.FindSituation(strings.TrimPrefix(trial.by, simPrefix)); err != nil {
			t.Errorf("%s: %v", m.name, err)
		}
	}
	if m.swap[1] != "" && !strings.Contains(trial.by, m.swap[0]) {
		t.Errorf("%s: the switch has no place in %q", m.name, trial.by)
	}
}

// The table of the document is of these mechanisms.
func TestDocumentNamesAll(t *testing.T) {
	root, err := patch.Root()
	if err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile(filepath.Join(root, "docs", "mechanisms.md"))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := report.Between(page, marker, ""); err != nil {
		t.Fatal(err)
	}
	for _, m := range mechanisms() {
		if !strings.Contains(string(page), "| "+m.name+" |") {
			t.Errorf("%s is not in the table; run: make mechanisms", m.name)
		}
	}
}

func TestLines(t *testing.T) {
	root := t.TempDir()
	text := `// Package p is counted.
package p

/* a comment
of two lines */
type box[T any] struct{ x T } // code

func (b *box[T]) get() T {
	// nothing

	return b.x
}

func put() string {
	return ` + "`a\n\nb`" + `
}
`
	if err := os.WriteFile(filepath.Join(root, "p.go"), []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		parts []string
		want  int
	}{
		{[]string{"p.go"}, 10},
		{[]string{"."}, 10},
		{[]string{".: box"}, 1},
		{[]string{".: box.get put"}, 8},
		{[]string{"p.go", ".: put"}, 10},
	} {
		if got, err := linesOf(root, c.parts); err != nil || got != c.want {
			t.Errorf("%v: %d lines, want %d: %v", c.parts, got, c.want, err)
		}
	}
	for _, part := range []string{".: get", "q.go", "q", ".: box put twice"} {
		if n, err := linesOf(root, []string{part}); err == nil {
			t.Errorf("%s has %d lines", part, n)
		}
	}
}

func TestGains(t *testing.T) {
	for _, c := range []struct {
		unit          string
		with, without float64
		want          float64
	}{
		{"us/op", 100, 150, .5},
		{"us/op", 150, 100, -1. / 3},
		{"MB/s", 150, 100, .5},
		{"packets/op", 0, 3, math.Inf(1)},
		{"packets/op", 0, 0, 0},
		{"spurious-%", 1, 11, .1},
		{"landed-%", 90, 80, .1},
	} {
		o := outcome{[]float64{c.with}, []float64{c.without}}
		if got := o.gains(c.unit)[0]; got != c.want && math.Abs(got-c.want) > 1e-9 {
			t.Errorf("%v: %v, want %v", c, got, c.want)
		}
	}
}

func TestVerdict(t *testing.T) {
	m := mechanism{name: "x", trials: []trial{{"a", "sim a", "us/op"}, {"b", "sim b", "MB/s"}}}
	for _, c := range []struct {
		needed string
		b      float64 // without, where 100 is with
		want   string
	}{{"", 99, "below 5 %"}, {"", 50, "worth it"}, {"law", 99, "needed: law"}} {
		m.needed = c.needed
		r := row{m, 7, []outcome{
			{[]float64{100, 100, 100}, []float64{200, 101, 90}}, {[]float64{100}, []float64{c.b}},
		}}
		got := markdown([]row{r})
		want := "| x | 7 | - | a (simulated) | 100 us/op | 101 | +1.0 % (-10 % to +100 %) | " + c.want
		if !strings.Contains(got, want) {
			t.Errorf("no %q in\n%s", want, got)
		}
	}
	if got := (&row{mechanism: m, result: make([]outcome, 2)}); got.verdict() != "needed: law" {
		t.Error(got.verdict())
	}
}

func TestFigures(t *testing.T) {
	got := figuresIn("goos: linux\nBenchmarkLat/size=8-2\t1000\t4780.5 ns/op\t3 p50-ns\n12.5 MB/s\n")
	if got["ns/op"] != 4780.5 || got["p50-ns"] != 3 || got["MB/s"] != 12.5 {
		t.Errorf("%v", got)
	}
	var o outcome
	if err := o.add("us/op", got, got); err == nil {
		t.Error("a figure that is not there")
	}
}

func TestCommandLine(t *testing.T) {
	for _, o := range []measure{
		{Only: []string{"no such mechanism"}},
		{UpdateDocs: "x.md", Only: []string{"packs"}},
		{UpdateDocs: "x.md", NoCPU: true},
	} {
		if err := o.run(); err == nil {
			t.Errorf("%+v: no error", o)
		}
	}
	if err := (&simulate{Name: "no such situation"}).run(); err == nil {
		t.Error("no error")
	}
}
