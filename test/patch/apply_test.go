package patch

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func parse(t *testing.T, text string) *sourceFile {
	t.Helper()
	path := filepath.Join(t.TempDir(), "f.go")
	if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	f, err := parseFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return f
}

const example = `package p

const few = 2

func (m *module) f(x int) {
	if m.part.limit < (m.now) && m.open() { // why
		m.part.count++
		m.send(x)
	} else {
		send(few)
	}
	switch {
	case x > m.part.limit:
		m.part.drop(x, m.part.limit, 3)
		m.send(x)
	}
}

func (m *module) g() { m.send(0); m.part.limit = few }
`

// What patterns match and how the replacement is written, in a function whose layout, receivers
// and parts do not matter.
func TestPatterns(t *testing.T) {
	for _, c := range []struct{ name, old, with, new, want string }{
		{"last names", "limit < now", "", "limit <= now", "if (m.part.limit <= (m.now)) && m.open()"},
		{"part of a chain", "part.limit < $x", "", "$x < part.limit", "((m.now) < m.part.limit) && m"},
		{"method", "$m.open()", "", "$m.shut()", "m.shut() {"},
		{"deleted", "count++", "", "", "{ // why\n\t\t\n\t\tm.send(x)"},
		{"run", "count++\nsend($y)", "", "send($y)\ncount++", "m.send(x)\nm.part.count++\n"},
		{
			"other statements", "if $c {\n$*a\n} else {\n$*b\n}", "", "if $c {\n$*b\n}",
			"{\nsend(few)\n}\n\tswitch",
		},
		{"arguments", "drop($x, $*more)", "", "drop($*more)", "m.part.drop(m.part.limit, 3)"},
		{"rest of a run", "drop($*_)\n$*more", "", "$*more", ":\n\t\tm.send(x)\n"},
		{"context", "send($x)", "limit = few", "send($x + 1)", "m.send(0 + 1);"},
		{"constant", "const few = 2", "", "const few = 3", "const few = 3\n"},
		{"literal", "$x > limit", "", "$x > 7", "case (x > 7):"},
	} {
		src := parse(t, example)
		m := Change{Name: c.name, In: "p", Old: c.old, With: c.with, New: c.new}
		e, err := m.Edit(&Sources{dirs: map[string][]*sourceFile{"p": {src}}})
		if err != nil {
			t.Error(err)
		} else if got := string(Apply(e)); !strings.Contains(got, c.want) {
			t.Errorf("%s: no %q in\n%s", c.name, c.want, got)
		}
	}
}

func TestPatternsThatDoNotApply(t *testing.T) {
	for _, c := range []struct{ name, old, with, new, want string }{
		{"several", "send($x)", "", "", "does not apply: 4 places"},
		{"none", "count--", "", "", "does not apply: 0 places"},
		{"another operator", "limit > now", "", "true", "0 places"},
		{"another argument", "drop($x, $x, 3)", "", "", "0 places"},
		{"more arguments", "drop($x)", "", "", "0 places"},
		{"context elsewhere", "count++", "limit = few", "", "0 places"},
		{"no Go", "if {", "", "", "not an expression"},
		{"unknown variable", "count++", "", "$y++", "has a variable"},
	} {
		src := parse(t, example)
		m := Change{Name: c.name, In: "p", Old: c.old, With: c.with, New: c.new}
		_, err := m.Edit(&Sources{dirs: map[string][]*sourceFile{"p": {src}}})
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), c.name+": ") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.name == "none" && !errors.Is(err, ErrApply) {
			t.Error(err)
		}
	}
}
