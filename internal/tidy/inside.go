package tidy

import (
	"go/ast"
	"path"
	"slices"
)

// headerCalls checks that, in the packages of insideDirs, only the files of headerRooms write or
// decode packet headers.
func (c *checker) headerCalls(s *source) {
	if !slices.Contains(insideDirs, s.dir) || isTest(s.Path) {
		return
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		call, ok := n.(*ast.CallExpr)
		if !ok {
			return true
		}
		sel, ok := call.Fun.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		for _, r := range headerRooms {
			if slices.Contains(r.calls, sel.Sel.Name) &&
				!matches(r.file, path.Base(s.Path)) {
				c.at(s, sel.Sel.Pos(), "header", "%s %s; only %s does", sel.Sel.Name, r.does, r.file)
			}
		}
		return true
	})
}

// The function "matches" reports whether a file name matches a pattern, as defined by path.Match.
func matches(pattern, name string) bool {
	ok, err := path.Match(pattern, name)
	return ok && err == nil
}

// structSizes reports structs with too many fields in the packages of insideDirs. An embedded
// struct counts as one field.
func (c *checker) structSizes(s *source) {
	if !slices.Contains(insideDirs, s.dir) || isTest(s.Path) {
		return
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		spec, ok := n.(*ast.TypeSpec)
		if !ok || slices.Contains(tunables, spec.Name.Name) {
			return true
		}
		if st, ok := spec.Type.(*ast.StructType); ok && st.Fields.NumFields() > structFieldsMax {
			c.at(s, spec.Pos(), "struct", "%s has %d fields, at most %d: which of them are a part "+
				"with a state of its own?", spec.Name.Name, st.Fields.NumFields(), structFieldsMax)
		}
		return true
	})
}
