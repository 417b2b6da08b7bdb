package gobtl

import "gobtl/internal/version"

// Version returns the version of gobtl with which the program was built, such as "v1.2.0" or a
// commit, or "devel" if the build has recorded no version. Any goroutine may call Version.
func Version() string { return version.String() }
