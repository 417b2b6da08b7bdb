package gobtl

import "gobtl/internal/version"

// Version returns the version of gobtl that the program was built with: "v1.2.0", or the commit
// of the tree, or "devel" if the build has recorded no version. Any goroutine may call Version.
func Version() string { return version.String() }
