package main

import (
	"fmt"
	"os"
	"path/filepath"

	"gobtl/stream"
)

// tryFiles checks before the meeting that the receiver's files can be saved after the stream.
// tryFiles fails for a missing or unwritable directory, and for a file name that is a directory.
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

// tryName returns an error if a directory has the name of the file.
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
