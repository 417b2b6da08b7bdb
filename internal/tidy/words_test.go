package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"
)

// TestEnumerationsPrint checks that an exported type with iota constants has a method String.
func TestEnumerationsPrint(t *testing.T) {
	t.Parallel()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	counted, prints := map[string]string{}, map[string]bool{}
	for _, f := range files {
		dir := path.Dir(f.Path)
		if !strings.HasSuffix(f.Path, ".go") || strings.HasSuffix(f.Path, "_test.go") ||
			strings.HasPrefix(dir, "test") || strings.HasPrefix(dir, "cmd") ||
			strings.HasPrefix(dir, "internal") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), f.Path, f.Data, parser.SkipObjectResolution)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			switch d := d.(type) {
			case *ast.GenDecl:
				if name := countedBy(d); ast.IsExported(name) {
					counted[dir+"."+name] = f.Path
				}
			case *ast.FuncDecl:
				if d.Name.Name == "String" && d.Recv != nil {
					if id, ok := d.Recv.List[0].Type.(*ast.Ident); ok {
						prints[dir+"."+id.Name] = true
					}
				}
			}
		}
	}
	if len(counted) < 15 || !prints["btl.Event"] {
		t.Fatalf("%d enumerations found: is this the repository?", len(counted))
	}
	for name, file := range counted {
		if !prints[name] {
			t.Errorf("%s: %s has no String", file, name)
		}
	}
}

// countedBy is the type of a group of constants that begins with iota, or an empty string.
func countedBy(d *ast.GenDecl) string {
	if d.Tok != token.CONST {
		return ""
	}
	v, ok := d.Specs[0].(*ast.ValueSpec)
	if !ok || len(v.Values) == 0 || !mentionsIota(v.Values[0]) {
		return ""
	}
	id, _ := v.Type.(*ast.Ident)
	if id == nil {
		return ""
	}
	return id.Name
}

func mentionsIota(e ast.Expr) (found bool) {
	ast.Inspect(e, func(n ast.Node) bool {
		id, ok := n.(*ast.Ident)
		found = found || ok && id.Name == "iota"
		return true
	})
	return found
}
