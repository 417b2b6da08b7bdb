//go:build !linux

package stream

import "fmt"

var errNoMap = fmt.Errorf("%w: rings in files are for Linux", ErrFile)

// CreateRing makes a ring in a file, on Linux.
func CreateRing(string, Geometry) (*Ring, error) { return nil, errNoMap }

// OpenRing maps a ring that another process has made, on Linux.
func OpenRing(string) (*Ring, error) { return nil, errNoMap }
