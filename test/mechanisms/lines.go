package main

import (
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/scanner"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// linesOf counts the lines of parts of the sources, without blank lines and comments. A part is a
// package ("hotel"), a file ("hotel/timers.go"), or a package with names of functions, methods and
// types ("hotel: New Hotel.Checkin Room"). A line counts once.
func linesOf(root string, parts []string) (int, error) {
	counted := map[string]map[int]bool{}
	for _, part := range parts {
		where, names, named := strings.Cut(part, ":")
		path := filepath.Join(root, filepath.FromSlash(where))
		files := []string{path}
		if filepath.Ext(path) != ".go" {
			pkg, err := build.ImportDir(path, 0)
			if err != nil {
				return 0, err
			}
			files = files[:0]
			for _, name := range slices.Concat(pkg.GoFiles, pkg.CgoFiles) {
				files = append(files, filepath.Join(path, name))
			}
		}
		left := strings.Fields(names)
		for _, name := range files {
			f, err := newCode(name)
			if err != nil {
				return 0, err
			}
			if counted[name] == nil {
				counted[name] = map[int]bool{}
			}
			if !named {
				f.count(counted[name], f.file.FileStart, f.file.FileEnd)
				continue
			}
			for _, d := range f.declarations() {
				if i := slices.Index(left, d.name); i >= 0 {
					left = slices.Delete(left, i, i+1)
					f.count(counted[name], d.Pos(), d.End())
				}
			}
		}
		if len(left) > 0 {
			return 0, fmt.Errorf("%s has no %s", where, strings.Join(left, ", "))
		}
	}
	lines := 0
	for _, file := range counted {
		lines += len(file)
	}
	return lines, nil
}

// code is a parsed file, with the lines that have code.
type code struct {
	set   *token.FileSet
	file  *ast.File
	lines []int
}

func newCode(path string) (*code, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	c := &code{set: token.NewFileSet()}
	if c.file, err = parser.ParseFile(c.set, path, text, parser.SkipObjectResolution); err != nil {
		return nil, err
	}
	var s scanner.Scanner
	file := c.set.AddFile(path, -1, len(text))
	s.Init(file, text, nil, 0) // comments are skipped
	for {
		pos, tok, literal := s.Scan()
		if tok == token.EOF {
			return c, nil
		}
		if tok == token.SEMICOLON && literal == "\n" {
			continue // the scanner's own, at the end of a line
		}
		first := file.Line(pos)
		for line := range 1 + strings.Count(literal, "\n") { // of a string of several lines
			c.lines = append(c.lines, first+line)
		}
	}
}

// count adds the lines with code between two positions.
func (c *code) count(to map[int]bool, from, end token.Pos) {
	first, last := c.set.Position(from).Line, c.set.Position(end).Line
	for _, line := range c.lines {
		if first <= line && line <= last {
			to[line] = true
		}
	}
}

// declaration is a function, a method ("Type.method") or a type.
type declaration struct {
	ast.Node

	name string
}

func (c *code) declarations() (all []declaration) {
	for _, d := range c.file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			name := d.Name.Name
			if d.Recv != nil {
				name = receiver(d.Recv.List[0].Type) + "." + name
			}
			all = append(all, declaration{d, name})
		case *ast.GenDecl:
			for _, s := range d.Specs {
				if t, ok := s.(*ast.TypeSpec); ok {
					all = append(all, declaration{t, t.Name.Name})
				}
			}
		}
	}
	return all
}

// receiver returns the name of a method's type, without pointers and type parameters.
func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
