// Package tidy checks the rules of this repository as a test. The rules of the repository
// say which package may import which package, and which code may read a clock, start a
// goroutine, print or exit. The rules of the repository limit the lengths of lines,
// functions and files. The test of package tidy reads every file that git tracks or would
// add, and reports each violation by file, line and rule. Other tests of package tidy show, with
// small examples, that each rule detects violations.
//
//	rules.go    the table of packages and what each may import
//	imports.go  imports, cgo
//	calls.go    clocks, goroutines, global randomness, output, exit, panics, init
//	sizes.go    lines, functions, files
//	names.go    how the comments of functions begin
//	folders.go  the table of folders in docs/architecture.md
//	text.go     words and paths that no file may contain
//	files.go    the files of the repository
//
// The rules of this package examine only the syntax, without types and for all build tags at
// once. The package has no state, and any goroutine may call its functions.
package tidy
