package patch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
)

// A pattern is Go source, either an expression, a sequence of statements, or a constant ("const a =
// 1"), which is searched for by its syntax. Layout, comments and parentheses do not count, and
//
//	name      matches the name, and what ends with it: rest.name, a.b().name
//	a.name    matches what ends with name, of something that a matches
//	$x        matches any expression or statement, twice the same if it is there twice
//	$_        matches any
//	$*x, $*_  match any number of statements, arguments or values
type pattern struct {
	text  string
	nodes []ast.Node // an ast.Expr, an *ast.ValueSpec, or a run of statements
	isRun bool
	base  token.Pos // of the text
}

var errPattern = errors.New("not an expression, statements, or a constant")

// metaPrefix begins the names that replace metavariables for the parser, and no other name of the
// sources.
const metaPrefix, metaRunPrefix = "META_", "METARUN_"

var metaSigns = regexp.MustCompile(`\$(\*?)`)

// parsePattern parses statements only on request, because an expression is also a statement.
func parsePattern(text string, statements bool) (*pattern, error) {
	text = metaSigns.ReplaceAllStringFunc(text, func(s string) string {
		if s == "$*" {
			return metaRunPrefix
		}
		return metaPrefix
	})
	before, after := "package p\nvar _ = (", ")"
	switch {
	case statements:
		before, after = "package p\nfunc _() {", "\n}"
	case strings.HasPrefix(text, "const "):
		before, after = "package p\n", "\n"
	}
	f, err := parser.ParseFile(token.NewFileSet(), "", before+text+after, parser.SkipObjectResolution)
	if err != nil || len(f.Decls) != 1 {
		return nil, errPattern
	}
	p := &pattern{text: text, isRun: statements, base: f.FileStart + token.Pos(len(before))}
	switch d := f.Decls[0].(type) {
	case *ast.FuncDecl:
		p.nodes = nodesOf(reflect.ValueOf(d.Body.List))
	case *ast.GenDecl:
		spec := d.Specs[0].(*ast.ValueSpec)
		if d.Tok == token.VAR {
			p.nodes = []ast.Node{ast.Unparen(spec.Values[0])}
		} else {
			p.nodes, p.base, p.text = []ast.Node{spec}, spec.Pos(), text[len("const "):]
		}
	}
	return p, nil
}

// textOf returns the pattern's own text of a node.
func (p *pattern) textOf(n ast.Node) string { return p.text[n.Pos()-p.base : n.End()-p.base] }

// meta returns the name of a metavariable, and whether it matches any number of nodes.
func meta(n any) (name string, run, ok bool) {
	if s, is := n.(*ast.ExprStmt); is {
		n = s.X
	}
	id, is := n.(*ast.Ident)
	if !is {
		return "", false, false
	}
	if name, ok = strings.CutPrefix(id.Name, metaPrefix); ok {
		return name, false, true
	}
	name, run = strings.CutPrefix(id.Name, metaRunPrefix)
	return name, run, run
}

// matcher compares a pattern with a part of a file, and stores the text for each metavariable.
type matcher struct {
	p     *pattern
	src   *sourceFile
	bound map[string]string // by the pattern's text
}

func newMatcher(p *pattern, src *sourceFile) *matcher {
	return &matcher{p: p, src: src, bound: map[string]string{}}
}

// bind stores the text that a metavariable matches, which must be the same at each of its uses.
func (m *matcher) bind(part, text string, strict bool) bool {
	if old, ok := m.bound[part]; ok && strict && old != text {
		return false
	}
	m.bound[part] = text
	return true
}

// expr compares expressions.
func (m *matcher) expr(p, s ast.Expr) bool {
	text := m.src.textOf(s)
	p, s = ast.Unparen(p), ast.Unparen(s)
	part := m.p.textOf(p)
	switch p := p.(type) {
	case *ast.Ident:
		if name, _, ok := meta(p); ok {
			return name == "_" || m.bind(part, text, true)
		}
		return lastName(s) == p.Name && m.bind(part, text, true)
	case *ast.SelectorExpr:
		sel, ok := s.(*ast.SelectorExpr)
		_, _, anyName := meta(p.Sel)
		return ok && (anyName || p.Sel.Name == sel.Sel.Name) && m.expr(p.X, sel.X) &&
			m.bind(part, text, !strings.Contains(part, metaPrefix+"_"))
	}
	return reflect.TypeOf(p) == reflect.TypeOf(s) &&
		m.values(reflect.ValueOf(p).Elem(), reflect.ValueOf(s).Elem()) && m.bind(part, text, false)
}

// lastName is the last name in an expression.
func lastName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.Ident:
		return e.Name
	case *ast.SelectorExpr:
		return e.Sel.Name
	}
	return ""
}

// nodes compares any two nodes.
func (m *matcher) nodes(p, s ast.Node) bool {
	if pe, ok := p.(ast.Expr); ok {
		se, ok := s.(ast.Expr)
		return ok && m.expr(pe, se)
	}
	if name, _, ok := meta(p); ok {
		if _, ok := s.(ast.Stmt); ok {
			return name == "_" || m.bind(m.p.textOf(p), m.src.textOf(s), true)
		}
	}
	return reflect.TypeOf(p) == reflect.TypeOf(s) &&
		m.values(reflect.ValueOf(p).Elem(), reflect.ValueOf(s).Elem())
}

var posType = reflect.TypeFor[token.Pos]()

// values compares the fields of two nodes. Of a position in the sources, values compares only the
// presence, such as that of the dots in f(x...).
func (m *matcher) values(p, s reflect.Value) bool {
	switch p.Kind() {
	case reflect.Struct:
		for i := range p.NumField() {
			if !m.values(p.Field(i), s.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer, reflect.Interface:
		if _, comment := p.Interface().(*ast.CommentGroup); comment {
			return true
		}
		pn, ok := p.Interface().(ast.Node)
		sn, _ := s.Interface().(ast.Node)
		if !ok || p.IsNil() || s.IsNil() {
			return !ok || p.IsNil() == s.IsNil()
		}
		return m.nodes(pn, sn)
	case reflect.Slice:
		return m.lists(nodesOf(p), nodesOf(s), true) >= 0
	default:
		if p.Type() == posType {
			return p.IsZero() == s.IsZero()
		}
		return p.Interface() == s.Interface()
	}
}

func nodesOf(v reflect.Value) []ast.Node {
	list := make([]ast.Node, v.Len())
	for i := range list {
		list[i] = v.Index(i).Interface().(ast.Node)
	}
	return list
}

// lists compares lists and returns the number of matched elements of s, or -1, where s may be
// longer than p only on request.
func (m *matcher) lists(p, s []ast.Node, all bool) int {
	if len(p) == 0 {
		if len(s) > 0 && all {
			return -1
		}
		return 0
	}
	name, run, _ := meta(p[0])
	if !run {
		if len(s) == 0 || !m.nodes(p[0], s[0]) {
			return -1
		}
		return after(1, m.lists(p[1:], s[1:], all))
	}
	before := m.bound
	for n := len(s); n >= 0; n-- {
		m.bound = maps.Clone(before)
		if name == "_" || m.bind(m.p.textOf(p[0]), m.src.textOf(s[:n]...), true) {
			if rest := m.lists(p[1:], s[n:], all); rest >= 0 {
				return n + rest
			}
		}
	}
	return -1
}

func after(n, rest int) int {
	if rest < 0 {
		return -1
	}
	return n + rest
}

// place is a part of a file that a pattern matches, with the texts of the metavariables.
type place struct {
	src      *sourceFile
	from, to int // bytes of the file
	bound    map[string]string
}

func (pl place) String() string {
	return fmt.Sprintf("%s:%d", filepath.Base(pl.src.path), pl.src.line(pl.from))
}

// find returns all places below a node that the pattern matches.
func (p *pattern) find(src *sourceFile, below ast.Node) (places []place) {
	found := func(m *matcher, first, last ast.Node) {
		places = append(places, place{src, src.offset(first.Pos()), src.offset(last.End()), m.bound})
	}
	walk(below, func(n ast.Node) bool {
		if !p.isRun {
			if _, paren := n.(*ast.ParenExpr); paren {
				return true // its inside is what matches
			}
			if m := newMatcher(p, src); m.nodes(p.nodes[0], n) {
				found(m, n, n)
			}
			return true
		}
		for _, list := range statementsOf(n) {
			for i := range list {
				m := newMatcher(p, src)
				if n := m.lists(p.nodes, list[i:], false); n > 0 {
					found(m, list[i], list[i+n-1])
				}
			}
		}
		return true
	})
	return places
}

// walk visits a node and the nodes below it while the function visit returns true, except the names
// behind dots.
func walk(n ast.Node, visit func(ast.Node) bool) {
	ast.Inspect(n, func(n ast.Node) bool {
		if n == nil || !visit(n) {
			return false
		}
		sel, ok := n.(*ast.SelectorExpr)
		if ok {
			walk(sel.X, visit)
		}
		return !ok
	})
}

// statementsOf returns the statement lists that belong directly to a node.
func statementsOf(n ast.Node) (lists [][]ast.Node) {
	add := func(list []ast.Stmt) { lists = append(lists, nodesOf(reflect.ValueOf(list))) }
	one := func(s ast.Stmt) {
		if s != nil {
			add([]ast.Stmt{s})
		}
	}
	switch n := n.(type) {
	case *ast.BlockStmt:
		add(n.List)
	case *ast.CaseClause:
		add(n.Body)
	case *ast.IfStmt:
		one(n.Init)
		one(n.Else)
	case *ast.ForStmt:
		one(n.Init)
		one(n.Post)
	}
	return lists
}

// render returns the text that replaces a match, with the matched texts in place of the
// metavariables.
func (p *pattern) render(bound map[string]string) string {
	var b strings.Builder
	done := p.base
	visit := func(n ast.Node) bool {
		text, ok := bound[p.textOf(n)]
		if _, isStmt := n.(ast.Stmt); isStmt {
			_, _, isMeta := meta(n)
			ok = ok && isMeta
		}
		if ok {
			b.WriteString(p.text[done-p.base:n.Pos()-p.base] + text)
			done = n.End()
		}
		return !ok
	}
	for _, n := range p.nodes {
		walk(n, visit)
	}
	b.WriteString(p.text[done-p.base:])
	if len(p.nodes) == 1 && reflect.TypeOf(p.nodes[0]) == reflect.TypeFor[*ast.BinaryExpr]() {
		return "(" + b.String() + ")"
	}
	return b.String()
}

// functionOf returns the function, or the declaration, that contains a place.
func functionOf(pl place) ast.Node {
	i := slices.IndexFunc(pl.src.file.Decls, func(d ast.Decl) bool {
		return pl.src.offset(d.Pos()) <= pl.from && pl.to <= pl.src.offset(d.End())
	})
	return pl.src.file.Decls[i]
}
