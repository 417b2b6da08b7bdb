package tidy

import (
	"go/ast"
	"go/doc"
	"go/parser"
	"go/token"
	"maps"
	"path"
	"slices"
	"strings"
	"testing"
)

// TestTypesHaveExamples checks that an Example of its package shows each exported type of a public
// package, or that unshown names the type with a reason.
func TestTypesHaveExamples(t *testing.T) {
	t.Parallel()
	found := publicTypes(t)
	if len(found) < 200 {
		t.Fatalf("%d types found: is this the repository?", len(found))
	}
	for _, name := range slices.Sorted(maps.Keys(found)) {
		shown, reason := found[name], unshown[name]
		switch {
		case !shown && reason == "":
			t.Errorf("no Example shows %s", name)
		case shown && reason != "":
			t.Errorf("an Example shows %s: take it from the list unshown", name)
		}
	}
	for name := range unshown {
		if _, ok := found[name]; !ok {
			t.Errorf("unshown has %s, which no public package has", name)
		}
	}
}

// publicTypes returns the exported types of the public packages by folder and name, and whether an
// Example shows each.
func publicTypes(t *testing.T) map[string]bool {
	t.Helper()
	files, err := Files("../..")
	if err != nil {
		t.Fatal(err)
	}
	fset, packages := token.NewFileSet(), map[string][]*ast.File{}
	for _, f := range files {
		dir := path.Dir(f.Path)
		if path.Ext(f.Path) != ".go" || strings.Contains(dir+"/", "internal/") ||
			covers("cmd/...", dir) || covers("test/...", dir) || covers("examples/...", dir) {
			continue
		}
		file, err := parser.ParseFile(fset, f.Path, f.Data, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		packages[dir] = append(packages[dir], file)
	}
	found := map[string]bool{}
	for dir, files := range packages {
		p, err := doc.NewFromFiles(fset, files, path.Join(module, dir))
		if err != nil {
			t.Fatal(err)
		}
		words, signatures := exampleWords(files), signaturesOf(files)
		for _, typ := range p.Types {
			names := slices.Concat(namesOf(typ), signatures[typ.Name])
			found[dir+"."+typ.Name] = hasExample(typ) ||
				slices.ContainsFunc(names, func(name string) bool { return words[name] })
		}
	}
	return found
}

// hasExample reports whether an Example is named for a type, for a method or for a constructor.
func hasExample(typ *doc.Type) bool {
	has := func(f *doc.Func) bool { return len(f.Examples) > 0 }
	return len(typ.Examples) > 0 || slices.ContainsFunc(typ.Funcs, has) ||
		slices.ContainsFunc(typ.Methods, has)
}

// namesOf returns the names in whose use a type is seen: its own name, its constructors, its
// constants and its variables.
func namesOf(typ *doc.Type) []string {
	names := []string{typ.Name}
	for _, f := range typ.Funcs {
		names = append(names, f.Name)
	}
	for _, v := range slices.Concat(typ.Consts, typ.Vars) {
		names = append(names, v.Names...)
	}
	return names
}

// signaturesOf returns the functions, methods and fields of a package by the types in their
// declarations.
func signaturesOf(files []*ast.File) map[string][]string {
	found := map[string][]string{}
	add := func(name string, where ast.Node) {
		ast.Inspect(where, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok && ast.IsExported(name) && ast.IsExported(id.Name) {
				found[id.Name] = append(found[id.Name], name)
			}
			return true
		})
	}
	for _, file := range files {
		if strings.HasSuffix(file.Name.Name, "_test") {
			continue
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				add(n.Name.Name, n.Type)
				return false
			case *ast.Field:
				for _, name := range n.Names {
					add(name.Name, n.Type)
				}
			}
			return true
		})
	}
	return found
}

// exampleWords returns the exported names in the Examples of a package.
func exampleWords(files []*ast.File) map[string]bool {
	words := map[string]bool{}
	for _, e := range doc.Examples(files...) {
		ast.Inspect(e.Code, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); ok {
				words[id.Name] = words[id.Name] || ast.IsExported(id.Name)
			}
			return true
		})
		if e.Play != nil { // With the functions and types beside the Example that it needs.
			ast.Inspect(e.Play, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok {
					words[id.Name] = words[id.Name] || ast.IsExported(id.Name)
				}
				return true
			})
		}
	}
	return words
}

// unshown has the types without an Example by the reason. A type is written as "folder.Name".
var unshown = reasons(map[string][]string{
	"a form of the wire: docs/protocol.md and the vectors of frag/testdata show each": {
		"frag.Action", "frag.Atomic", "frag.Followers", "frag.Foreign", "frag.Get",
		"frag.Hello", "frag.OpCode", "frag.Parts", "frag.Piece", "frag.Probe", "frag.Reject",
		"frag.Reservation", "frag.Retry", "frag.Sack", "frag.SackRange",
	},
	"an ability of a provider, for authors of providers: fabric/fabrictest shows how each is used": {
		"fabric.Addresser", "fabric.Attr", "fabric.Backlogger", "fabric.Caps", "fabric.Grouper",
		"fabric.Hastener", "fabric.HeaderSplit",
		"fabric.Lander", "fabric.Overrunner", "fabric.Readier",
		"fabric.Region", "fabric.Sleeper", "fabric.Sourcer", "fabric.Tender", "fabric.Waiter",
	},
	"a message of the management: docs/vnic.md shows the layouts, Manager and Agent pass it": {
		"vnic.Attribute", "vnic.LIDEntry", "vnic.Lease", "vnic.MACEntries", "vnic.MACList",
		"vnic.Message", "vnic.Method", "vnic.Registration", "vnic.Status", "vnic.Trap",
	},
	"needs modules and an address for each side: cmd/btlvnic shows it": {
		"vnic.Proof", "vnic.Prover", "vnic.Station",
	},
	"counters or fields for display, which need no call": {
		"vnic.AgentStats", "vnic.Arrival", "vnic.Carrier", "vnic.Change", "vnic.Counter",
		"vnic.Counts", "vnic.ManagerStats", "vnic.PlanMAC", "vnic.RCClass", "vnic.TrapSeen",
	},
	"needs a device of the kernel, and root: cmd/btlvnic shows it": {
		"vnic/tap.Addr", "vnic/tap.Config", "vnic/tap.Device", "vnic/tap.Link",
		"vnic/tap.Queue",
	},
	"a constraint of type parameters": {
		"mpi.Integer", "mpi.Ordered",
	},
	"comes from package launch in programs: the examples of World show it": {
		"mpi.Job",
	},
	"the error of a rank that has died, which an Example cannot have": {
		"mpi.RankError",
	},
	"counters for display: the pages of metrics explain them": {
		"mpi.Waits", "btl/btlprom.Waits", "btl/runner.Waits",
	},
	"a part of package mpi for authors of collective operations": {
		"mpi/coll.Fold", "mpi/coll.Parts", "mpi/coll.Port", "mpi/coll.Schedule",
	},
	"for authors of drivers such as package runner": {
		"btl.Hooks",
	},
	"for authors of layers such as package call": {
		"btl/runner.Waker",
	},
	"for authors of providers, in their tests": {
		"fabric/fabrictest.Fixture",
	},
	"for other fabrics that simulate a line": {
		"fabric/sim.Line",
	},
	"a part of a module's state, for package btl and tests": {
		"reliability.Counts", "reliability.PathState", "reliability.Sack",
		"reliability.Segments", "reliability.State",
	},
	"an argument of a function of Config": {
		"stream.Arrival",
	},
	"for the simulator: programs use a Port": {
		"stream.Engine",
	},
	"needs another process, which fills the ring": {
		"stream.Reader",
	},
	"a name for display": {
		"stream.Reason", "stream.Role",
	},
	"the error of a function of the program that panics": {"mpi.OpError"},
})

// reasons turns a list of names by reason into the reasons by name.
func reasons(by map[string][]string) map[string]string {
	found := map[string]string{}
	for reason, names := range by {
		for _, name := range names {
			found[name] = reason
		}
	}
	return found
}
