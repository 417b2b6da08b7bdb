package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
)

// errApply: the text that a fault replaces is not found exactly once.
var errApply = errors.New("does not apply")

// mutate returns the source with the fault in it.
func (m *mutation) mutate(source string) (string, error) {
	if n := strings.Count(source, m.old); n != 1 {
		return "", fmt.Errorf("%s: %w: %d times in %s: %q", m.name, errApply, n, m.file, m.old)
	}
	return strings.Replace(source, m.old, m.new, 1), nil
}

// apply puts the fault into the tree at dir, and returns what takes it out again.
func (m *mutation) apply(dir string) (undo func() error, err error) {
	path := filepath.Join(dir, filepath.FromSlash(m.file))
	source, err := os.ReadFile(path)
	if err != nil {
		return nil, err
	}
	bad, err := m.mutate(string(source))
	if err != nil {
		return nil, err
	}
	undo = func() error { return os.WriteFile(path, source, 0o644) }
	return undo, os.WriteFile(path, []byte(bad), 0o644)
}

// sourceRoot returns the folder of go.mod, at or above the working directory.
func sourceRoot() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", err
	}
	for {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir, nil
		}
		up := filepath.Dir(dir)
		if up == dir {
			return "", errors.New("no go.mod here or above")
		}
		dir = up
	}
}

// copyTree copies the sources, without what begins with a dot.
func copyTree(from, to string) error {
	return filepath.WalkDir(from, func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(from, path)
		if err != nil {
			return err
		}
		target := filepath.Join(to, rel)
		switch {
		case rel != "." && strings.HasPrefix(d.Name(), "."):
			if d.IsDir() {
				return filepath.SkipDir
			}
			return nil
		case d.IsDir():
			return os.MkdirAll(target, 0o755)
		case !d.Type().IsRegular():
			return nil
		}
		data, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		return os.WriteFile(target, data, 0o644)
	})
}
