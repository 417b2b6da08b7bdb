package tidy

import (
	"go/ast"
	"go/token"
	"path"
	"slices"
	"strconv"
	"strings"
)

// clockNames lists functions of the standard library and of x/sys that read or use the real clock.
var clockNames = map[string][]string{
	"time": {
		"After", "AfterFunc", "NewTicker", "NewTimer", "Now", "Since", "Sleep", "Tick", "Until",
	},
	"golang.org/x/sys/unix": {"ClockGettime", "ClockNanosleep", "Gettimeofday", "Nanosleep"},
	"syscall":               {"Gettimeofday", "Nanosleep", "Time"},
}

// yieldNames are the functions that yield the CPU.
var yieldNames = map[string][]string{
	"runtime":               {"Gosched"},
	"golang.org/x/sys/unix": {"SYS_SCHED_YIELD"},
	"syscall":               {"SYS_SCHED_YIELD"},
}

// outputNames lists functions and variables of the standard library for terminal input and output,
// which library code must not use.
var outputNames = map[string][]string{
	"fmt": {"Print", "Printf", "Println", "Scan", "Scanf", "Scanln"},
	"os":  {"Stderr", "Stdin", "Stdout"},
}

// seededNames lists names of math/rand/v2 for generators with a seed that the caller chooses.
// Functions of math/rand/v2 that are not in the list seededNames use the global random generator.
var seededNames = []string{
	"ChaCha8", "New", "NewChaCha8", "NewPCG", "NewZipf", "PCG", "Rand", "Source", "Zipf",
}

// The method "calls" checks the function calls in a Go file, and all uses of names from imported
// packages.
func (c *checker) calls(s *source) {
	for _, decl := range s.ast.Decls {
		fn, ok := decl.(*ast.FuncDecl)
		if ok && fn.Recv == nil && fn.Name.Name == "init" && !isTest(s.Path) && !isProvider(s.dir) {
			c.at(s, fn.Pos(), "init", "only a provider has an init, to register itself")
		}
	}
	ast.Inspect(s.ast, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.GoStmt:
			if !mayStartGoroutines(s.Path) {
				c.at(s, n.Pos(), "goroutine", "this code runs on its caller's goroutine; no go statement")
			}
		case *ast.SelectorExpr:
			if x, ok := n.X.(*ast.Ident); ok && s.names[x.Name] != "" {
				c.selector(s, n.Pos(), s.names[x.Name], n.Sel.Name)
			}
		case *ast.CallExpr:
			c.builtin(s, n)
		}
		return true
	})
	for _, group := range s.ast.Comments {
		for _, comment := range group.List {
			if strings.HasPrefix(comment.Text, "//go:linkname") {
				c.at(s, comment.Pos(), "linkname", "no private names of other packages")
			}
		}
	}
	for _, imported := range s.names {
		if imported == "log" && !isProgram(s.Path) && !isTest(s.Path) {
			c.report(s.Path, 1, "output", "a library does not log; return an error or count")
		}
	}
}

// The method "selector" checks a use of a name from an imported package, such as time.Now.
func (c *checker) selector(s *source, pos token.Pos, imported, name string) {
	library := !isTest(s.Path) && !isProgram(s.Path)
	switch {
	case slices.Contains(clockNames[imported], name) && !mayReadClock(s.Path):
		c.at(s, pos, "clock", "%s.%s: take the instant as an argument; clocks are read in "+
			"programs and where rule 2 of CONTRIBUTING.md says",
			path.Base(imported), name)
	case slices.Contains(yieldNames[imported], name) && !mayYield(s.Path, name):
		c.at(s, pos, "yield", "%s.%s: loops yield by the policy of internal/waiting",
			path.Base(imported), name)
	case library && slices.Contains(outputNames[imported], name):
		c.at(s, pos, "output", "a library has no %s.%s; return an error or take an io.Writer",
			imported, name)
	case imported == "os" && name == "Exit" && !isTest(s.Path) && path.Base(s.Path) != "main.go":
		c.at(s, pos, "exit", "a program exits in main.go, a library never; return the error")
	case library && imported == "math/rand" && name != "Rand",
		library && imported == "math/rand/v2" && !slices.Contains(seededNames, name):
		c.at(s, pos, "random", "global randomness cannot be replayed; take a *rand.Rand or a seed")
	}
}

func (c *checker) builtin(s *source, call *ast.CallExpr) {
	fn, ok := call.Fun.(*ast.Ident)
	if !ok || isTest(s.Path) {
		return
	}
	switch fn.Name {
	case "print", "println":
		c.at(s, call.Pos(), "output", "%s is for debugging; remove it", fn.Name)
	case "panic":
		owner := s.ast.Name.Name + ": "
		broken := len(call.Args) == 1 && strings.HasPrefix(leading(call.Args[0]), owner)
		if !broken && !isProgram(s.Path) {
			c.at(s, call.Pos(), "panic",
				"panic is for broken invariants, with a message that starts with %q", owner)
		}
	}
}

// The function "leading" returns the string literal at the beginning of a Go expression. For "a" +
// b the result is "a". For a call such as fmt.Sprintf, the result is the string literal at the
// beginning of the first argument.
func leading(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		text, err := strconv.Unquote(e.Value)
		if err != nil || e.Kind != token.STRING {
			return ""
		}
		return text
	case *ast.BinaryExpr:
		return leading(e.X)
	case *ast.ParenExpr:
		return leading(e.X)
	case *ast.CallExpr:
		if len(e.Args) > 0 {
			return leading(e.Args[0])
		}
	}
	return ""
}
