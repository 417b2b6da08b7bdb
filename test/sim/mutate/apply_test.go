package main

import (
	"bytes"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/go/packages"
)

// checkTypes says which faults of a package do not compile. It puts as many into the package at a
// time as do not overlap, and tries them one by one only if these do not compile together.
func checkTypes(t *testing.T, dir string, faults []fault) {
	t.Helper()
	pkgs, err := packages.Load(&packages.Config{Dir: dir, Mode: packages.LoadSyntax}, ".")
	if err != nil || len(pkgs) != 1 || len(pkgs[0].Errors) > 0 {
		t.Fatalf("%s: %v, %v", dir, pkgs, err)
	}
	for len(faults) > 0 {
		var together, later []fault
		for _, f := range faults {
			overlaps := false
			for _, g := range together {
				overlaps = overlaps || f.src == g.src && f.from < g.to && g.from < f.to
			}
			if overlaps {
				later = append(later, f)
			} else {
				together = append(together, f)
			}
		}
		if typeErrors(pkgs[0], together) != nil {
			for _, f := range together {
				if err := typeErrors(pkgs[0], []fault{f}); err != nil {
					t.Errorf("%s: %v", f.name, err)
				}
			}
		}
		faults = later
	}
}

// typeErrors compiles a package with faults in it.
func typeErrors(pkg *packages.Package, faults []fault) error {
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range pkg.CompiledGoFiles {
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		for at := len(text); at >= 0; at-- { // from the end, so that what is before does not move
			for _, f := range faults {
				if f.src.path == path && f.from == at {
					text = bytes.Join([][]byte{text[:f.from], []byte(f.text), text[f.to:]}, nil)
				}
			}
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	cfg := types.Config{Sizes: pkg.TypesSizes, Importer: importer(pkg.Imports)}
	_, err := cfg.Check(pkg.PkgPath, set, files, nil)
	return err
}

type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p.Types, nil
	}
	return types.Unsafe, nil
}

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
		m := mutation{name: c.name, in: "p", old: c.old, with: c.with, new: c.new}
		e, err := m.edit(&sources{dirs: map[string][]*sourceFile{"p": {src}}})
		if err != nil {
			t.Error(err)
		} else if got := string(e.apply()); !strings.Contains(got, c.want) {
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
		m := mutation{name: c.name, in: "p", old: c.old, with: c.with, new: c.new}
		_, err := m.edit(&sources{dirs: map[string][]*sourceFile{"p": {src}}})
		if err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.HasPrefix(err.Error(), c.name+": ") {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if c.name == "none" && !errors.Is(err, errApply) {
			t.Error(err)
		}
	}
}
