package tidy

import (
	"cmp"
	"go/ast"
	"path"
	"slices"
	"strings"
)

// The type "arrow" stands for calls between two files of package btl. The field "from" of an arrow
// is the name of the file with the calls. The field "to" of an arrow is the name of the file that
// declares the called functions and methods.
type arrow struct{ from, to string }

// The method "floors" checks the calls between files of package btl against the layers in
// btlFloors. A file of package btl may call functions of its own layer and of lower layers, but not
// of higher layers.
func (c *checker) floors() {
	found := c.arrows()
	all := make([]arrow, 0, len(found))
	for a := range found {
		all = append(all, a)
	}
	slices.SortFunc(all, func(a, b arrow) int {
		return cmp.Or(strings.Compare(a.from, b.from), strings.Compare(a.to, b.to))
	})
	for _, a := range all {
		if floorOf(a.from) > floorOf(a.to) && !slices.Contains(arrowsUp, a) {
			c.report(path.Join(btlDir, a.from), 0, "floor", "calls %s of %s, which stands above it",
				strings.Join(found[a], ", "), a.to)
		}
	}
	if len(all) == 0 {
		return // not the whole repository
	}
	for _, a := range arrowsUp {
		if _, used := found[a]; !used {
			c.report("internal/tidy/rules.go", 0, "floor", "%s -> %s is allowed and not there: remove it",
				a.from, a.to)
		}
	}
}

// For each pair of files of package btl, the method "arrows" returns the names of the functions
// that the first file calls and the second file declares. The method "arrows" ignores ambiguous
// names, which are names that several files of package btl declare, and names of methods that types
// of other packages have as well.
func (c *checker) arrows() map[arrow][]string {
	home := map[string]string{}
	files := c.btlFiles()
	for _, s := range files {
		for _, decl := range s.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			name := fn.Name.Name
			if _, twice := home[name]; twice || slices.Contains(commonNames, name) {
				home[name] = ""
				continue
			}
			home[name] = path.Base(s.Path)
		}
		if floorOf(path.Base(s.Path)) < 0 && len(files) > 1 {
			c.report(s.Path, 0, "floor", "has no place in btlFloors (rules.go)")
		}
	}
	found := map[arrow][]string{}
	for _, s := range files {
		from := path.Base(s.Path)
		ast.Inspect(s.ast, func(n ast.Node) bool {
			call, ok := n.(*ast.CallExpr)
			if !ok {
				return true
			}
			name := s.calledInPackage(call)
			if to := home[name]; to != "" && to != from {
				a := arrow{from, to}
				if !slices.Contains(found[a], name) {
					found[a] = append(found[a], name)
				}
			}
			return true
		})
	}
	return found
}

// btlFiles are the non-test files of btl.
func (c *checker) btlFiles() []*source {
	return slices.DeleteFunc(slices.Clone(c.sources), func(s *source) bool {
		return s.dir != btlDir || isTest(s.Path) || path.Base(s.Path) == "doc.go"
	})
}

// calledInPackage returns the name of the function that a call expression calls, or "" if a package
// other than btl declares this function.
func (s *source) calledInPackage(call *ast.CallExpr) string {
	switch fn := call.Fun.(type) {
	case *ast.Ident:
		return fn.Name
	case *ast.SelectorExpr:
		if x, ok := fn.X.(*ast.Ident); ok && s.names[x.Name] != "" {
			return ""
		}
		return fn.Sel.Name
	}
	return ""
}

// floorOf returns the number of a file's layer in btlFloors, counted from the top, or -1 if the
// file is in no layer.
func floorOf(file string) int {
	return slices.IndexFunc(btlFloors, func(files []string) bool {
		return slices.Contains(files, file)
	})
}
