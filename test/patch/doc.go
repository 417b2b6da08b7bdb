// Package patch changes the sources for one build, by patterns of Go syntax. The programs
// test/sim/mutate and test/mechanisms use the package.
//
//	Change --Edit--> Edit (the place) --Overlay--> changed files, for go build -overlay
//
// A pattern is found in all files of a package, independently of layout, names of receivers, and
// line breaks (see the type pattern). Each Change must fit exactly one place. The sources stay
// unchanged, but nothing else may change them between Edit and the end of the build.
//
// All types of this package belong to one goroutine.
package patch
