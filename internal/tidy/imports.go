package tidy

import (
	"path"
	"strconv"
	"strings"
)

// The method "imports" checks the imports of a Go file against the table "policies", and sets
// s.names to a map from package names to import paths.
func (c *checker) imports(s *source) {
	s.names = map[string]string{}
	rules, known := policyOf(s.dir)
	if !known {
		c.report(s.Path, 1, "layout",
			"no rule says what %s may import; add it to internal/tidy/rules.go", s.dir)
	}
	for _, spec := range s.ast.Imports {
		imported, err := strconv.Unquote(spec.Path.Value)
		if err != nil {
			continue // the parser has refused such a file
		}
		name := importName(imported)
		if spec.Name != nil {
			name = spec.Name.Name
		}
		if name == "." {
			c.at(s, spec.Pos(), "import", "dot import of %s hides where names come from", imported)
		}
		s.names[name] = imported
		if known {
			c.judge(s, rules, imported, s.line(spec.Pos()))
		}
	}
}

func importName(imported string) string {
	base := path.Base(imported)
	if len(base) > 1 && base[0] == 'v' && strings.Trim(base[1:], "0123456789") == "" {
		base = path.Base(path.Dir(imported))
	}
	return base
}

// judge reports an import as a violation if the importing package's policy does not allow it.
func (c *checker) judge(s *source, rules policy, imported string, line int) {
	test := isTest(s.Path)
	inner, house := strings.CutPrefix(imported, module+"/")
	switch {
	case imported == "C":
		if s.dir != "fabric/ofi" {
			c.report(s.Path, line, "cgo", `import "C" belongs in fabric/ofi alone`)
		}
	case house && !test && coversAny(testOnly, inner):
		c.report(s.Path, line, "import", "%s is for tests alone", imported)
	case house && covers("test/...", inner) && !covers("test/...", s.dir):
		c.report(s.Path, line, "import", "nothing imports %s", imported)
	case test:
		// A test may import any package of the module. Package tidy has no rule against import cycles,
		// because the compiler rejects import cycles anyway.
	case house && !coversAny(rules.imports, inner):
		c.report(s.Path, line, "import", "%s must not import %s", s.dir, imported)
	case !house && isModule(imported) && !anyPrefix(rules.libs, imported):
		c.report(s.Path, line, "import", "%s must not use the module of %s", s.dir, imported)
	case !house && coversAny(rules.deny, imported):
		c.report(s.Path, line, "import", "%s must do without %s", s.dir, imported)
	}
}

// isModule reports whether the first part of an import path has a dot, which means that the package
// does not belong to the standard library.
func isModule(imported string) bool {
	first, _, _ := strings.Cut(imported, "/")
	return strings.Contains(first, ".")
}

func anyPrefix(libs []string, imported string) bool {
	for _, lib := range libs {
		if covers(lib+"/...", imported) || lib == "..." {
			return true
		}
	}
	return false
}
