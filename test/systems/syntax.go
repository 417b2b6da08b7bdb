package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path/filepath"
	"strings"
	"sync"
)

// syntax keeps parsed files. Most files are the same for all systems, and are parsed once.
type syntax struct {
	set *token.FileSet
	dir string // of the module, with a separator behind it

	lock  sync.Mutex
	files map[string]*file
}

type file struct {
	once sync.Once
	ast  *ast.File
	err  error
}

func newSyntax(dir string) *syntax {
	return &syntax{
		set: token.NewFileSet(), dir: dir + string(filepath.Separator), files: make(map[string]*file),
	}
}

// parse returns the syntax of a file: whole if the file belongs to the module, and else without the
// bodies of functions. Callers must not change the result.
func (s *syntax) parse(_ *token.FileSet, name string, src []byte) (*ast.File, error) {
	s.lock.Lock()
	f := s.files[name]
	if f == nil {
		f = new(file)
		s.files[name] = f
	}
	s.lock.Unlock()
	f.once.Do(func() {
		const mode = parser.AllErrors | parser.SkipObjectResolution
		if strings.HasPrefix(name, s.dir) {
			f.ast, f.err = parser.ParseFile(s.set, name, src, mode|parser.ParseComments)
			return
		}
		if f.ast, f.err = parser.ParseFile(s.set, name, src, mode); f.ast != nil {
			dropBodies(f.ast)
		}
	})
	return f.ast, f.err
}

// dropBodies removes the bodies of functions, except of those that the language wants one of:
// functions with type parameters, and init and main.
func dropBodies(f *ast.File) {
	for _, decl := range f.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		switch {
		case !ok, fn.Type.TypeParams != nil:
		case fn.Recv == nil && (fn.Name.Name == "init" || fn.Name.Name == "main"):
		default:
			fn.Body = nil
		}
	}
}
