package gobtl

import "gobtl/internal/version"

// Version is the version of gobtl that the program was built with: "v1.2.0", or the commit of the
// tree, or "devel" if the build has recorded no version. Any goroutine may call it.
func Version() string { return version.String() }
