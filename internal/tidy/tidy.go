package tidy

import (
	"cmp"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"slices"
	"strings"
)

// File is a file of the repository.
type File struct {
	Path string // relative to the module's directory, with slashes
	Data []byte
}

// Finding is a violation of a rule.
type Finding struct {
	Path string
	Line int    // from 1; 0 is the whole file
	Rule string // short name of the rule
	Text string // what is wrong, and what to do
}

func (f Finding) String() string {
	return fmt.Sprintf("%s:%d: %s: %s", f.Path, f.Line, f.Rule, f.Text)
}

// Check returns the violations of the rules in the given files, sorted by path and line. The slice
// "files" must hold all files of the repository.
func Check(files []File) []Finding {
	var c checker
	for _, f := range files {
		if isBinary(f.Data) {
			continue
		}
		c.text(f)
		switch path.Ext(f.Path) {
		case ".go":
			c.goFile(f)
		case ".c", ".h":
			c.fileLength(f)
			c.lineLength(f, nil)
		}
	}
	c.packageDocs()
	c.floors()
	c.walls()
	c.folders(files)
	slices.SortFunc(c.findings, func(a, b Finding) int {
		return cmp.Or(strings.Compare(a.Path, b.Path), cmp.Compare(a.Line, b.Line),
			strings.Compare(a.Rule, b.Rule))
	})
	return c.findings
}

// A checker collects the violations that it finds, and the parsed files for rules that concern
// several files.
type checker struct {
	findings []Finding
	sources  []*source
}

// source is a parsed Go file.
type source struct {
	File
	dir   string
	fset  *token.FileSet
	ast   *ast.File
	names map[string]string // import path by the name that the file uses for it
}

func (c *checker) report(name string, line int, rule, format string, args ...any) {
	c.findings = append(c.findings, Finding{name, line, rule, fmt.Sprintf(format, args...)})
}

// The method "at" records a violation at the given position of a Go file.
func (c *checker) at(s *source, pos token.Pos, rule, format string, args ...any) {
	c.report(s.Path, s.line(pos), rule, format, args...)
}

func (s *source) line(pos token.Pos) int { return s.fset.Position(pos).Line }

func (c *checker) goFile(f File) {
	const mode = parser.ParseComments | parser.SkipObjectResolution
	fset := token.NewFileSet()
	parsed, err := parser.ParseFile(fset, f.Path, f.Data, mode)
	if err != nil {
		c.report(f.Path, 0, "syntax", "%v", err)
		return
	}
	s := &source{File: f, dir: path.Dir(f.Path), fset: fset, ast: parsed}
	c.sources = append(c.sources, s)
	c.imports(s)
	c.calls(s)
	c.sizes(s)
	c.headerCalls(s)
	c.structSizes(s)
	c.docNames(s)
}

// packageDocs checks that each package has its package comment in the file doc.go. If a package has
// only one file, the package comment may be in this file.
func (c *checker) packageDocs() {
	byDir := map[string][]*source{}
	for _, s := range c.sources {
		if !strings.HasSuffix(s.Path, "_test.go") {
			byDir[s.dir] = append(byDir[s.dir], s)
		}
	}
	for dir, sources := range byDir {
		documented := slices.ContainsFunc(sources, func(s *source) bool {
			return s.ast.Doc != nil && (path.Base(s.Path) == "doc.go" || len(sources) == 1)
		})
		if !documented {
			c.report(path.Join(dir, "doc.go"), 0, "doc",
				"package %s has no package comment in doc.go", sources[0].ast.Name.Name)
		}
		for _, s := range sources {
			if documented && s.ast.Doc != nil && path.Base(s.Path) != "doc.go" && len(sources) > 1 {
				c.at(s, s.ast.Doc.Pos(), "doc", "a second package comment; doc.go has one")
			}
		}
	}
}
