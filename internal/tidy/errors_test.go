package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"
)

// errorsPage lists the errors of all public packages.
const errorsPage = "docs/reference/errors.md"

var errorName = regexp.MustCompile("`([a-z]+\\.[A-Z]\\w*)`")

// TestErrorsListed compares the first column of the page of errors with the exported errors of the
// code, which are variables that begin with Err, and types with a method Error.
func TestErrorsListed(t *testing.T) {
	t.Parallel()
	listed := listedErrors(t, docPages(t)[errorsPage])
	found := exportedErrors(t)
	if len(found) < 100 || !found["btl.ErrPeerDead"] || !found["runner.InUse"] {
		t.Fatalf("%d errors found: is this the repository?", len(found))
	}
	for name := range found {
		if !listed[name] {
			t.Errorf("%s lacks %s", errorsPage, name)
		}
	}
	for name := range listed {
		if !found[name] {
			t.Errorf("%s has %s, which no public package exports", errorsPage, name)
		}
	}
}

// listedErrors returns the names in the first column of the page.
func listedErrors(t *testing.T, text string) map[string]bool {
	t.Helper()
	listed := map[string]bool{}
	for line := range strings.Lines(text) {
		cell, ok := strings.CutPrefix(line, "|")
		if !ok {
			continue
		}
		cell, _, _ = strings.Cut(cell, "|")
		for _, m := range errorName.FindAllStringSubmatch(cell, -1) {
			if listed[m[1]] {
				t.Errorf("%s is listed twice", m[1])
			}
			listed[m[1]] = true
		}
	}
	return listed
}

// exportedErrors returns the errors of all public packages, by the name of their package.
func exportedErrors(t *testing.T) map[string]bool {
	t.Helper()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]bool{}
	for _, f := range files {
		dir := path.Dir(f.Path)
		if !strings.HasSuffix(f.Path, ".go") || strings.HasSuffix(f.Path, "_test.go") ||
			strings.Contains(dir+"/", "internal/") || covers("cmd/...", dir) ||
			covers("test/...", dir) || covers("examples/...", dir) {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Path, f.Data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			for _, name := range errorsOf(d) {
				if ast.IsExported(name) {
					found[file.Name.Name+"."+name] = true
				}
			}
		}
	}
	return found
}

// errorsOf returns the names of the errors that a declaration declares.
func errorsOf(d ast.Decl) (names []string) {
	switch d := d.(type) {
	case *ast.GenDecl:
		for _, s := range d.Specs {
			if ts, ok := s.(*ast.TypeSpec); ok && ts.Assign.IsValid() &&
				strings.HasSuffix(ts.Name.Name, "Error") {
				names = append(names, ts.Name.Name) // another name of an error of an internal package
			}
			v, ok := s.(*ast.ValueSpec)
			if ok && d.Tok == token.VAR && strings.HasPrefix(v.Names[0].Name, "Err") {
				names = append(names, v.Names[0].Name)
			}
		}
	case *ast.FuncDecl:
		if d.Name.Name != "Error" || d.Recv == nil || len(d.Type.Params.List) > 0 {
			return nil
		}
		recv := d.Recv.List[0].Type
		if star, ok := recv.(*ast.StarExpr); ok {
			recv = star.X
		}
		if id, ok := recv.(*ast.Ident); ok {
			names = append(names, id.Name)
		}
	}
	return names
}
