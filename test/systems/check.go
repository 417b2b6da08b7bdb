package main

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"

	"golang.org/x/sync/errgroup"
	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/analysis/passes/assign"
	"golang.org/x/tools/go/analysis/passes/atomicalign"
	"golang.org/x/tools/go/analysis/passes/buildtag"
	"golang.org/x/tools/go/analysis/passes/copylock"
	"golang.org/x/tools/go/analysis/passes/errorsas"
	"golang.org/x/tools/go/analysis/passes/nilfunc"
	"golang.org/x/tools/go/analysis/passes/printf"
	"golang.org/x/tools/go/analysis/passes/shift"
	"golang.org/x/tools/go/analysis/passes/structtag"
	"golang.org/x/tools/go/analysis/passes/unmarshal"
	"golang.org/x/tools/go/analysis/passes/unsafeptr"
	"golang.org/x/tools/go/analysis/passes/unusedresult"
	"golang.org/x/tools/go/packages"
)

// analyzers are those of "go vet" that need nothing of function bodies in other modules, and
// atomicalign, which finds atomic accesses to 64 bits that panic on 32-bit systems.
var analyzers = []*analysis.Analyzer{
	assign.Analyzer, atomicalign.Analyzer, buildtag.Analyzer, copylock.Analyzer, errorsas.Analyzer,
	nilfunc.Analyzer, printf.Analyzer, shift.Analyzer, structtag.Analyzer, unmarshal.Analyzer,
	unsafeptr.Analyzer, unusedresult.Analyzer,
}

// findings are the errors in a module.
type findings struct {
	dir string // of the module

	lock     sync.Mutex
	systems  map[string][]string // those that have an error, by its text
	packages int                 // checked, of all systems
}

// add records an error. Several packages may have the same one: a package is checked with its tests
// and without them.
func (f *findings) add(system, text string) {
	text = strings.TrimPrefix(text, f.dir+string(filepath.Separator))
	f.lock.Lock()
	defer f.lock.Unlock()
	if !slices.Contains(f.systems[text], system) {
		f.systems[text] = append(f.systems[text], system)
	}
}

// lines are the errors in order, each with its systems.
func (f *findings) lines() (lines []string) {
	for _, text := range slices.Sorted(maps.Keys(f.systems)) {
		slices.Sort(f.systems[text])
		lines = append(lines, fmt.Sprintf("%s (%s)", text, strings.Join(f.systems[text], ", ")))
	}
	return lines
}

// check checks the module in dir for each system. Systems are checked at the same time, because
// "go list" uses one processor for much of its time.
func check(ctx context.Context, dir string, systems []string) (*findings, error) {
	dir, err := filepath.Abs(dir)
	if err != nil {
		return nil, err
	}
	found := &findings{dir: dir, systems: make(map[string][]string)}
	files := newSyntax(dir)
	group, ctx := errgroup.WithContext(ctx)
	group.SetLimit(runtime.GOMAXPROCS(0))
	for _, system := range systems {
		group.Go(func() error {
			if err := found.check(ctx, system, files); err != nil {
				return fmt.Errorf("%s: %w", system, err)
			}
			return nil
		})
	}
	return found, group.Wait()
}

// check checks all packages of the module for one system.
func (f *findings) check(ctx context.Context, system string, files *syntax) error {
	goos, goarch, _ := strings.Cut(system, "/")
	loaded, err := packages.Load(&packages.Config{
		Mode:    packages.LoadAllSyntax | packages.NeedModule,
		Context: ctx,
		Dir:     f.dir,
		Env: append(os.Environ(), "CGO_ENABLED=0", "GOOS="+goos, "GOARCH="+goarch,
			"GO386=", "GOAMD64=", "GOFLAGS=-buildvcs=false"),
		Fset:      files.set,
		Tests:     true,
		ParseFile: files.parse,
	}, "./...")
	if err != nil {
		return err
	}
	if len(loaded) == 0 {
		return errors.New("no packages found")
	}
	packages.Visit(loaded, nil, func(p *packages.Package) {
		for _, e := range p.Errors {
			// Other modules' imports look unused without the bodies of functions.
			if own(p) || e.Kind != packages.TypeError || !strings.HasSuffix(e.Msg, "not used") {
				f.add(system, e.Error())
			}
		}
	})
	return f.vet(system, loaded)
}

// own reports whether a package belongs to the module that is checked.
func own(p *packages.Package) bool { return p.Module != nil && p.Module.Main }

// vet runs the analyzers on packages of the module.
func (f *findings) vet(system string, loaded []*packages.Package) error {
	packages.Visit(loaded, nil, func(p *packages.Package) {
		// The analyzers go from package to package, but learn nothing in other modules.
		maps.DeleteFunc(p.Imports, func(_ string, q *packages.Package) bool { return !own(q) })
		p.IllTyped = len(p.Errors) > 0 // and not where another module's package looks so
	})
	graph, err := checker.Analyze(analyzers, loaded, nil)
	if err != nil {
		return err
	}
	for act := range graph.All() {
		for _, d := range act.Diagnostics {
			at := act.Package.Fset.Position(d.Pos)
			f.add(system, fmt.Sprintf("%s: %s", at, d.Message))
		}
	}
	f.lock.Lock()
	f.packages += len(loaded)
	f.lock.Unlock()
	return nil
}
