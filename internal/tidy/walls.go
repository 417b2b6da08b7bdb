package tidy

import (
	"bytes"
	"go/ast"
	"maps"
	"slices"
	"strings"
)

// walls limits the number of methods of each type and the number of lines of each package of the
// library. A type may have at most methodsMax methods, and a package in the directory btl at most
// packageLinesMax lines. Some packages have individual limits (linesToday) in place of
// packageLinesMax. A developer may lower an individual limit but must not raise it.
func (c *checker) walls() {
	methods, lines := map[string]int{}, map[string]int{}
	for _, s := range c.sources {
		if isTest(s.Path) || isProgram(s.Path) {
			continue
		}
		lines[s.dir] += bytes.Count(s.Data, []byte("\n"))
		for _, decl := range s.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Recv != nil {
				methods[s.dir+"."+receiverOf(fn)]++
			}
		}
	}
	for _, name := range slices.Sorted(maps.Keys(methods)) {
		dir := name[:strings.LastIndexByte(name, '.')]
		c.bounded(dir, name, "methods", methods[name], methodsMax, nil)
	}
	for _, dir := range slices.Sorted(maps.Keys(lines)) {
		if covers("btl/...", dir) {
			c.bounded(dir, dir, "lines", lines[dir], packageLinesMax, linesToday)
		}
	}
}

// The method "bounded" records a violation if a count exceeds its limit, or if an individual limit
// is much higher than the count.
func (c *checker) bounded(place, name, what string, count, most int, today map[string]int) {
	own, has := today[name]
	switch {
	case !has && count > most:
		c.report(place, 0, "wall", "%s has %d %s, at most %d: which of them are a part with a state of "+
			"its own?", name, count, what, most)
	case has && count > own:
		c.report(place, 0, "wall", "%s has %d %s, at most %d, and fewer with time", name, count, what,
			own)
	case has && len(c.sources) > wholeHouse && own-count > slack(own):
		c.report("internal/tidy/rules.go", 0, "wall", "%s has %d %s: lower its bound of %d", name, count,
			what, own)
	}
}

// The function "slack" returns the largest permitted difference between an individual limit and the
// present number of methods or lines.
func slack(bound int) int { return max(3, bound/50) }

// If a checker has more than wholeHouse files, it assumes that they are the whole repository, and
// not an example in a test.
const wholeHouse = 200

// receiverOf returns the name of the type to which a method belongs.
func receiverOf(fn *ast.FuncDecl) string {
	t := fn.Recv.List[0].Type
	for {
		switch x := t.(type) {
		case *ast.StarExpr:
			t = x.X
		case *ast.IndexExpr:
			t = x.X
		case *ast.IndexListExpr:
			t = x.X
		case *ast.Ident:
			return x.Name
		default:
			return ""
		}
	}
}
