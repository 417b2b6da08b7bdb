package tidy

import (
	"go/ast"
	"strings"
	"unicode"
	"unicode/utf8"
)

// docNames checks the first word of the comment above each function. If a function's comment begins
// with a lower-case letter, its first word must be the name of the function.
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
