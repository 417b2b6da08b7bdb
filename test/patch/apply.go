package patch

import (
	"encoding/json"
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

// ErrApply means that the code that a Change replaces is not found exactly once.
var ErrApply = errors.New("does not apply")

// Change replaces one place of the sources.
type Change struct {
	Name string // in error messages
	In   string // the package, from the root of the sources
	Old  string // a pattern of what stands in one place of the package
	With string // a pattern of something else in the same function, if Old alone is in several
	New  string // what takes its place: the parts of Old, metavariables or not, as they are there
}

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

// Sources holds the files of packages as built on this system, without tests.
type Sources struct {
	root string
	dirs map[string][]*sourceFile
}

// NewSources returns the sources below the directory of go.mod.
func NewSources(root string) *Sources { return &Sources{root, map[string][]*sourceFile{}} }

// dir returns the files of a package.
func (s *Sources) dir(name string) ([]*sourceFile, error) {
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

// Edit is a Change with the place that it replaces.
type Edit struct {
	place

	name string
	text string
}

// Path is the changed file.
func (e *Edit) Path() string { return e.src.path }

// Apply returns the text of a file after changes of different places in it. The first change names
// the file, and changes of other files have no effect.
func Apply(edits ...*Edit) []byte {
	src := edits[0].src
	here := slices.DeleteFunc(slices.Clone(edits), func(e *Edit) bool { return e.src != src })
	slices.SortFunc(here, func(a, b *Edit) int { return b.from - a.from })
	text := src.text
	for _, e := range here { // from the end, so that what is before does not move
		text = slices.Concat(text[:e.from], []byte(e.text), text[e.to:])
	}
	return text
}

// Overlay writes the changed files into a folder, and also a description of them, for the flag
// -overlay of the go command. Overlay returns the path of the description.
func Overlay(dir string, edits ...*Edit) (path string, err error) {
	replace := map[string]string{}
	for _, e := range edits {
		if replace[e.src.path] != "" {
			continue
		}
		first := slices.IndexFunc(edits, func(o *Edit) bool { return o.src == e.src })
		to := filepath.Join(dir, fmt.Sprintf("changed%d.go", len(replace)))
		replace[e.src.path] = to
		if err := os.WriteFile(to, Apply(edits[first:]...), 0o644); err != nil {
			return "", err
		}
	}
	text, err := json.Marshal(map[string]any{"Replace": replace})
	if err != nil {
		return "", err
	}
	path = filepath.Join(dir, "overlay.json")
	return path, os.WriteFile(path, text, 0o644)
}

// Edit finds the only place of a Change.
func (m *Change) Edit(s *Sources) (*Edit, error) {
	patterns, err := m.patterns()
	if err != nil {
		return nil, err
	}
	files, err := s.dir(m.In)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
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
		return nil, fmt.Errorf("%s: %w: %d places in %s are %q: %v", m.Name, ErrApply, len(places), m.In,
			m.Old, places)
	}
	text := patterns.new.render(places[0].bound)
	if strings.Contains(text, metaPrefix) || strings.Contains(text, metaRunPrefix) {
		return nil, fmt.Errorf("%s: %w: %q has a variable that %q has not", m.Name, ErrApply,
			m.New, m.Old)
	}
	return &Edit{places[0], m.Name, text}, nil
}

// patterns holds the patterns of a Change.
type patterns struct{ old, new, with *pattern }

func (m *Change) patterns() (*patterns, error) {
	var p patterns
	var err error
	for _, statements := range []bool{false, true} {
		var errOld, errNew error
		p.old, errOld = parsePattern(m.Old, statements)
		p.new, errNew = parsePattern(m.New, statements)
		if err = errors.Join(errOld, errNew); err == nil {
			break
		}
	}
	if err == nil && m.With != "" {
		if p.with, err = parsePattern(m.With, false); err != nil {
			p.with, err = parsePattern(m.With, true)
		}
	}
	if err != nil {
		return nil, fmt.Errorf("%s: %w", m.Name, err)
	}
	return &p, nil
}

// Root returns the directory of go.mod, at or above the working directory.
func Root() (string, error) {
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
