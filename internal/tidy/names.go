package tidy

import (
	"go/ast"
	"strings"
	"unicode"
	"unicode/utf8"
)

// docNames checks the beginnings of the comments of functions. A comment that begins with a
// lower-case letter must begin with the name of its function.
func (c *checker) docNames(s *source) {
	for _, decl := range s.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if !ok || fn.Doc == nil {
			continue
		}
		first, _, _ := strings.Cut(fn.Doc.Text(), " ")
		word := strings.TrimRight(first, ",:.\n")
		if r, _ := utf8.DecodeRuneInString(word); !unicode.IsLower(r) {
			continue
		}
		if word != fn.Name.Name {
			c.at(s, fn.Doc.Pos(), "name", "the comment of %s begins with %q: a name of before?",
				fn.Name.Name, word)
		}
	}
}
