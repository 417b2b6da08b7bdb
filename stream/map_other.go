//go:build !linux

package stream

import "fmt"

var errNoMap = fmt.Errorf("%w: rings in files are for Linux", ErrFile)

// CreateRing returns ErrFile, because mapped rings exist only on Linux.
func CreateRing(string, Geometry) (*Ring, error) { return nil, errNoMap }

// OpenRing returns ErrFile, because mapped rings exist only on Linux.
func OpenRing(string) (*Ring, error) { return nil, errNoMap }
