package main

import (
	"fmt"
	"os"
	"path/filepath"

	"gobtl/stream"
)

// tryFiles checks, before a stream begins, that the files of the receiver can be written. tryFiles
// returns an error for a missing or unwritable directory, and for a file name that names a
// directory.
func (s *session) tryFiles() error {
	for i := range s.c.Streams {
		if name := s.streamName(s.c.File, i); name != "" {
			for k := range s.c.Regions {
				if err := tryName(stream.FileName(name, k)); err != nil {
					return fmt.Errorf("-f: %w", err)
				}
			}
			if err := tryDir(filepath.Dir(name)); err != nil {
				return fmt.Errorf("-f: %w", err)
			}
		}
		if name := s.streamName(s.c.Missing, i); name != "" {
			if err := tryName(name); err != nil {
				return fmt.Errorf("--missing: %w", err)
			}
		}
	}
	if s.c.Record != "" {
		if err := tryName(s.c.Record); err != nil {
			return fmt.Errorf("--record: %w", err)
		}
	}
	return nil
}

// tryName returns an error if name is a directory.
func tryName(name string) error {
	if info, err := os.Stat(name); err == nil && info.IsDir() {
		return fmt.Errorf("%w: %s is a directory", stream.ErrFile, name)
	}
	return nil
}

// tryDir returns an error if no file can be created in a directory.
func tryDir(dir string) error {
	f, err := os.CreateTemp(dir, ".btlstream-*")
	if err != nil {
		return fmt.Errorf("%w: %w", stream.ErrFile, err)
	}
	_ = f.Close() // The file is empty.
	if err := os.Remove(f.Name()); err != nil {
		return fmt.Errorf("%w: %w", stream.ErrFile, err)
	}
	return nil
}
