package tidy

import (
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"slices"
	"testing"
)

// TestWriters applies the rule for writers to the repository.
func TestWriters(t *testing.T) {
	t.Parallel()
	findings, err := Writers("../..")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range findings {
		t.Error(f)
	}
}

// owner is a package of btl that declares structs, for the examples below.
const owner = `package owner
type Inner struct { Count int }
type State struct {
	Inner Inner
	Behind *Inner
	List []int
	Words [4]uint64
	Index map[int]int
	N int
	Counts *[4]int
}
var Shared State
func Of(n int) *State { return nil }`

// checked returns the type-checked source of a package that may import imported.
func checked(
	t *testing.T, name, code string, imported *types.Package,
) (*ast.File, *types.Package, *types.Info) {
	t.Helper()
	fset := token.NewFileSet()
	f, err := parser.ParseFile(fset, "x.go", code, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	info := &types.Info{
		Types: map[ast.Expr]types.TypeAndValue{}, Uses: map[*ast.Ident]types.Object{},
		Defs: map[*ast.Ident]types.Object{}, Selections: map[*ast.SelectorExpr]*types.Selection{},
	}
	conf := types.Config{Importer: onlyImport{imported}}
	pkg, err := conf.Check(name, fset, []*ast.File{f}, info)
	if err != nil {
		t.Fatalf("%s: %v", code, err)
	}
	return f, pkg, info
}

// onlyImport knows one package.
type onlyImport struct{ pkg *types.Package }

func (i onlyImport) Import(string) (*types.Package, error) { return i.pkg, nil }

// TestWriterExamples checks that each way to write a foreign struct is found, and that a struct
// that a function builds for itself is not a finding.
func TestWriterExamples(t *testing.T) {
	t.Parallel()
	const inside, outside = "gobtl/btl/internal/owner", "example.com/owner"
	for _, c := range []struct {
		what, owner, statement string
		want                   int
	}{
		{"a field", inside, "s.N = 1", 1},
		{"a field of another module", outside, "s.N = 1", 0},
		{"a package with a similar name", "gobtl/btlother", "s.N = 1", 0},
		{"an operation", inside, "s.N += 1", 1},
		{"an increment", inside, "s.N++", 1},
		{"one of several", inside, "k, s.N = 1, 1", 1},
		{"a field of a field", inside, "s.Inner.Count = 1", 2},
		{"behind a pointer", inside, "s.Behind.Count = 1", 1},
		{"an element of an array", inside, "s.Words[1] = 1", 1},
		{"an element of a slice", inside, "s.List[1] = 1", 1},
		{"an entry of a map", inside, "s.Index[1] = 1", 1},
		{"a deleted entry", inside, "delete(s.Index, 1)", 1},
		{"a copy into a field", inside, "copy(s.List[1:], own.List)", 1},
		{"a cleared field", inside, "clear((s.List))", 1},
		{"by a loop", inside, "for s.N = range 4 { }", 1},
		{"by a loop over a list", inside, "for k, s.N = range own.List { }", 1},
		{"by a pointer to a field", inside, "_ = &s.N", 1},
		{"a whole struct", inside, "*s = owner.State{}", 1},
		{"a struct that a function returns", inside, "owner.Of(1).N = 1", 1},
		{"a variable of the package", inside, "owner.Shared.N = 1", 1},
		{"an own part in an own struct", inside, "h.part.N = 1", 1},
		{"a pointer to an own part", inside, "_ = &h.part", 0},
		{"a value of a function", inside, "own.N, own.Inner.Count = 1, 1", 0},
		{"a composite literal", inside, "own = owner.State{N: 1}", 0},
		{"an own struct", inside, "h.k = 1", 0},
		{"an own pointer", inside, "h.other = s", 0},
		{"an element of an array behind a pointer", inside, "s.Counts[1]++", 0},
		{"a read", inside, "k = s.N + s.List[0]", 0},
	} {
		_, pkg, _ := checked(t, c.owner, owner, nil)
		code := `package x
import "` + c.owner + `"
type holder struct { part owner.State; other *owner.State; k int }
func f(s *owner.State, h *holder, own owner.State, k int) { ` + c.statement + ` }`
		f, using, info := checked(t, "gobtl/btl/internal/x", code, pkg)
		var got []string
		w := writes{pkg: using, info: info, report: func(_ token.Pos, text string) {
			got = append(got, text)
		}}
		w.file(f)
		if len(got) != c.want {
			t.Errorf("%s (%s): found %q, want %d", c.what, c.statement, slices.Clip(got), c.want)
		}
	}
}
