package patch

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"go/types"
	"path/filepath"
	"slices"

	"golang.org/x/tools/go/packages"
)

// Compile returns an error for each set of changes with which a package does not compile. The
// argument dir of Compile is the package, from the root of the sources.
func (s *Sources) Compile(dir string, sets ...[]*Edit) error {
	pkgs, err := packages.Load(&packages.Config{
		Dir: filepath.Join(s.root, filepath.FromSlash(dir)), Mode: packages.LoadSyntax,
	}, ".")
	if err != nil || len(pkgs) != 1 || len(pkgs[0].Errors) > 0 {
		return fmt.Errorf("%s: %v, %w", dir, pkgs, err)
	}
	var errs []error
	for len(sets) > 0 {
		// As many sets as do not overlap are compiled at a time, and one by one only if these do not
		// compile together.
		var together []*Edit
		var now, later [][]*Edit
		for _, set := range sets {
			if overlap(together, set) {
				later = append(later, set)
			} else {
				together, now = append(together, set...), append(now, set)
			}
		}
		if typeErrors(pkgs[0], together) != nil {
			for _, set := range now {
				if err := typeErrors(pkgs[0], set); err != nil {
					errs = append(errs, fmt.Errorf("%s: %w", set[0].name, err))
				}
			}
		}
		sets = later
	}
	return errors.Join(errs...)
}

func overlap(all, more []*Edit) bool {
	return slices.ContainsFunc(more, func(e *Edit) bool {
		return slices.ContainsFunc(all, func(o *Edit) bool {
			return e.src == o.src && e.from < o.to && o.from < e.to
		})
	})
}

// typeErrors compiles a package with changes.
func typeErrors(pkg *packages.Package, edits []*Edit) error {
	set := token.NewFileSet()
	var files []*ast.File
	for _, path := range pkg.CompiledGoFiles {
		var text any // nil: the file itself
		if i := slices.IndexFunc(edits, func(e *Edit) bool { return e.src.path == path }); i >= 0 {
			text = Apply(edits[i:]...)
		}
		file, err := parser.ParseFile(set, path, text, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files = append(files, file)
	}
	cfg := types.Config{Sizes: pkg.TypesSizes, Importer: importer(pkg.Imports)}
	_, err := cfg.Check(pkg.PkgPath, set, files, nil)
	return err
}

type importer map[string]*packages.Package

func (i importer) Import(path string) (*types.Package, error) {
	if p := i[path]; p != nil {
		return p.Types, nil
	}
	return types.Unsafe, nil
}
