package tidy

import (
	"bytes"
	"go/ast"
	"strings"
	"unicode/utf8"
)

// wideMarker is the text of a comment that permits long lines. A comment with the text wideMarker
// lifts the limit lineColumnsMax for one statement or declaration, which begins on the line of the
// comment or on the next line.
const wideMarker = "nolint:lll"

// The method "sizes" checks the lengths of a Go file, of its functions and of its lines.
func (c *checker) sizes(s *source) {
	c.fileLength(s.File)
	if !isTest(s.Path) {
		for _, decl := range s.ast.Decls {
			fn, ok := decl.(*ast.FuncDecl)
			if !ok {
				continue
			}
			if lines := s.line(fn.End()) - s.line(fn.Type.Pos()) + 1; lines > funcLinesMax {
				c.at(s, fn.Pos(), "function", "%s has %d lines, at most %d",
					fn.Name.Name, lines, funcLinesMax)
			}
		}
	}
	c.lineLength(s.File, s.wideLines())
}

func (c *checker) fileLength(f File) {
	limit := fileLinesMax
	if isTest(f.Path) {
		limit = testFileLinesMax
	}
	if lines := bytes.Count(f.Data, []byte("\n")); lines > limit {
		c.report(f.Path, lines, "file", "%d lines, at most %d", lines, limit)
	}
}

// lineLength checks the lengths of lines. A tab counts as one column, as in the linter.
func (c *checker) lineLength(f File, exempt map[int]bool) {
	number := 0
	for line := range bytes.Lines(f.Data) {
		number++
		columns := utf8.RuneCount(bytes.TrimRight(line, "\r\n"))
		if columns > lineColumnsMax && !exempt[number] {
			c.report(f.Path, number, "line", "%d columns, at most %d", columns, lineColumnsMax)
		}
	}
}

// wideLines returns the numbers of those lines that may have more than lineColumnsMax columns
// because of a wideMarker comment.
func (s *source) wideLines() map[int]bool {
	starts := map[int]bool{}
	for _, group := range s.ast.Comments {
		for _, comment := range group.List {
			if strings.Contains(comment.Text, wideMarker) {
				starts[s.line(comment.Pos())] = true
				starts[s.line(group.End())+1] = true
			}
		}
	}
	exempt := map[int]bool{}
	if len(starts) == 0 {
		return exempt
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		if n == nil || n == s.ast || !starts[s.line(n.Pos())] {
			return true
		}
		for line := s.line(n.Pos()); line <= s.line(n.End()); line++ {
			exempt[line] = true
		}
		return false
	})
	return exempt
}
