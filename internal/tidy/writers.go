package tidy

import (
	"errors"
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/packages"
)

// ownedPrefix is the import path of package btl. In package btl and the packages in directories
// below btl, only the package that declares a struct may write the fields of the struct.
const ownedPrefix = module + "/" + btlDir

// settable lists structs of package btl that callers fill in. All packages may write the exported
// fields of the structs in the list "settable".
var settable = []string{"gobtl/btl.Config", "gobtl/btl.Fragment"}

// Writers checks all packages in the directory btl, without tests. Writers returns each place where
// a package in the directory btl writes a field of a struct that a different package in the
// directory btl declares. The argument "dir" is the module's root directory.
func Writers(dir string) ([]Finding, error) {
	const mode = packages.LoadSyntax
	loaded, err := packages.Load(&packages.Config{Mode: mode, Dir: dir}, "./"+btlDir+"/...")
	if err != nil {
		return nil, err
	}
	if len(loaded) == 0 {
		return nil, errors.New("no packages found")
	}
	dir, err = filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	var findings []Finding
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", p.PkgPath, p.Errors[0])
		}
		w := writes{pkg: p.Types, info: p.TypesInfo, report: func(pos token.Pos, text string) {
			at := p.Fset.Position(pos)
			name, _ := filepath.Rel(dir, at.Filename) // the loader's paths are absolute
			findings = append(findings, Finding{filepath.ToSlash(name), at.Line, "writer", text})
		}}
		for _, f := range p.Syntax {
			w.file(f)
		}
	}
	return findings, nil
}

// The type "writes" finds the statements of a package that write fields of structs that this
// package does not declare.
type writes struct {
	pkg    *types.Package
	info   *types.Info
	report func(pos token.Pos, text string)
}

func (w *writes) file(f *ast.File) {
	ast.Inspect(f, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.AssignStmt:
			if n.Tok != token.DEFINE {
				for _, to := range n.Lhs {
					w.target(to)
				}
			}
		case *ast.IncDecStmt:
			w.target(n.X)
		case *ast.RangeStmt:
			if n.Tok == token.ASSIGN {
				w.target(n.Key)
				w.target(n.Value)
			}
		case *ast.UnaryExpr:
			if n.Op == token.AND && !w.isStruct(n.X) {
				w.target(n.X) // a callee may write through a pointer, like atomic.AddInt64
			}
		case *ast.CallExpr:
			w.builtin(n)
		}
		return true
	})
}

// The method "builtin" treats a call of the builtin functions clear, copy and delete as a write of
// the call's first argument.
func (w *writes) builtin(call *ast.CallExpr) {
	name, ok := call.Fun.(*ast.Ident)
	if !ok {
		return
	}
	_, ok = w.info.Uses[name].(*types.Builtin)
	if ok && slices.Contains([]string{"clear", "copy", "delete"}, name.Name) {
		w.target(call.Args[0])
	}
}

// target records a violation for each field that an assignment to the expression e changes, if a
// different package declares the field's struct. A write of "x.f.g[i]", for example, changes the
// fields f and g. An assignment through a field that is a pointer does not change the struct that
// contains the pointer.
func (w *writes) target(e ast.Expr) {
	var foreign []*ast.SelectorExpr
	for {
		switch x := e.(type) {
		case *ast.ParenExpr:
			e = x.X
		case *ast.IndexExpr:
			if w.isPointer(x.X) { // of an array
				w.found(foreign)
				return
			}
			e = x.X
		case *ast.SliceExpr:
			e = x.X
		case *ast.StarExpr:
			w.pointed(x, foreign)
			return
		case *ast.SelectorExpr:
			if w.foreignField(x) {
				foreign = append(foreign, x)
			}
			if w.info.Selections[x] == nil || w.isPointer(x.X) { // a variable of a package, or of a pointer
				w.found(foreign)
				return
			}
			e = x.X
		case *ast.Ident:
			if v, ok := w.info.ObjectOf(x).(*types.Var); ok && v.Parent() == v.Pkg().Scope() {
				w.found(foreign) // not a value that a function builds
			}
			return
		default:
			w.found(foreign)
			return
		}
	}
}

// pointed records a violation if an assignment through the pointer x writes one of the given
// fields, or a whole struct, that a different package in the directory btl declares.
func (w *writes) pointed(x *ast.StarExpr, fields []*ast.SelectorExpr) {
	w.found(fields)
	name, ok := types.Unalias(w.info.TypeOf(x)).(*types.Named)
	if ok && len(fields) == 0 && w.isStruct(x) && w.foreign(name.Obj()) {
		w.report(x.Pos(), fmt.Sprintf("%s is written outside of its package: call a method of it",
			nameOf(name.Obj())))
	}
}

func (w *writes) found(fields []*ast.SelectorExpr) {
	for _, f := range fields {
		w.report(f.Pos(), fmt.Sprintf("field %s of %s is written outside of its package: call a method "+
			"of its struct", f.Sel.Name, w.info.Uses[f.Sel].Pkg().Path()))
	}
}

// foreignField reports whether x is a field of a struct that a different package in the directory
// btl declares, and that is not in the list "settable".
func (w *writes) foreignField(x *ast.SelectorExpr) bool {
	field, ok := w.info.Uses[x.Sel].(*types.Var)
	if !ok || !field.IsField() || !w.foreign(field) {
		return false
	}
	t := w.info.TypeOf(x.X)
	if p, ok := t.Underlying().(*types.Pointer); ok {
		t = p.Elem()
	}
	holder, ok := types.Unalias(t).(*types.Named)
	return !ok || !slices.Contains(settable, nameOf(holder.Obj()))
}

// foreign reports whether the object o is declared by a package in the directory btl other than the
// examined package.
func (w *writes) foreign(o types.Object) bool {
	return o.Pkg() != nil && o.Pkg() != w.pkg &&
		(o.Pkg().Path() == ownedPrefix || strings.HasPrefix(o.Pkg().Path(), ownedPrefix+"/"))
}

func (w *writes) isPointer(e ast.Expr) bool {
	_, ok := w.info.TypeOf(e).Underlying().(*types.Pointer)
	return ok
}

func (w *writes) isStruct(e ast.Expr) bool {
	_, ok := w.info.TypeOf(e).Underlying().(*types.Struct)
	return ok
}

func nameOf(o types.Object) string { return o.Pkg().Path() + "." + o.Name() }
