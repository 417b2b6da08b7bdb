package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/build"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
)

// errApply means that the code that a fault replaces is not found exactly once.
var errApply = errors.New("does not apply")

// sourceFile is a parsed file of the sources.
type sourceFile struct {
	path string // absolute
	text []byte
	file *ast.File
	pos  *token.File
}

func (f *sourceFile) offset(p token.Pos) int { return f.pos.Offset(p) }
func (f *sourceFile) line(offset int) int    { return f.pos.Line(f.pos.Pos(offset)) }

// textOf is the source text from the first node to the last one.
func (f *sourceFile) textOf(nodes ...ast.Node) string {
	if len(nodes) == 0 {
		return ""
	}
	return string(f.text[f.offset(nodes[0].Pos()):f.offset(nodes[len(nodes)-1].End())])
}

// sources holds the files of packages as built on this system, without tests.
type sources struct {
	root string
	dirs map[string][]*sourceFile
}

func newSources(root string) *sources { return &sources{root, map[string][]*sourceFile{}} }

// dir returns the files of a package.
func (s *sources) dir(name string) ([]*sourceFile, error) {
	if files := s.dirs[name]; files != nil {
		return files, nil
	}
	dir := filepath.Join(s.root, filepath.FromSlash(name))
	pkg, err := build.ImportDir(dir, 0)
	if err != nil {
		return nil, err
	}
	var files []*sourceFile
	for _, name := range slices.Concat(pkg.GoFiles, pkg.CgoFiles) {
		f, err := parseFile(filepath.Join(dir, name))
		if err != nil {
			return nil, err
		}
		files = append(files, f)
	}
	s.dirs[name] = files
	return files, nil
}

func parseFile(path string) (*sourceFile, error) {
	text, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
	if err != nil {
		return nil, err
	}
	return &sourceFile{path, text, file, set.File(file.FileStart)}, nil
}

// edit is a change that a fault makes to the sources.
type edit struct {
	place

	text string
}

// apply returns the file with the fault in it.
func (e *edit) apply() []byte {
	return slices.Concat(e.src.text[:e.from], []byte(e.text), e.src.text[e.to:])
}

// edit finds the only place of a fault.
func (m *mutation) edit(s *sources) (*edit, error) {
	patterns, err := m.patterns()
	if err != nil {
		return nil, err
	}
	files, err := s.dir(m.in)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	var places []place
	for _, f := range files {
		for _, pl := range patterns.old.find(f, f.file) {
			if patterns.with == nil || len(patterns.with.find(f, functionOf(pl))) > 0 {
				places = append(places, pl)
			}
		}
	}
	if len(places) != 1 {
		return nil, fmt.Errorf("%s: %w: %d places in %s are %q: %v", m.name, errApply, len(places), m.in,
			m.old, places)
	}
	text := patterns.new.render(places[0].bound)
	if strings.Contains(text, metaPrefix) || strings.Contains(text, metaRunPrefix) {
		return nil, fmt.Errorf("%s: %w: %q has a variable that %q has not", m.name, errApply,
			m.new, m.old)
	}
	return &edit{places[0], text}, nil
}

// patterns holds the patterns of a fault.
type patterns struct{ old, new, with *pattern }

func (m *mutation) patterns() (*patterns, error) {
	var p patterns
	var err error
	for _, statements := range []bool{false, true} {
		var errOld, errNew error
		p.old, errOld = parsePattern(m.old, statements)
		p.new, errNew = parsePattern(m.new, statements)
		if err = errors.Join(errOld, errNew); err == nil {
			break
		}
	}
	if err == nil && m.with != "" {
		if p.with, err = parsePattern(m.with, false); err != nil {
			p.with, err = parsePattern(m.with, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.name, err)
	}
	return &p, nil
}

// sourceRoot returns the directory of go.mod, at or above the working directory.
func sourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = up
	}
}
