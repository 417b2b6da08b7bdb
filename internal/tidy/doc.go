// Package tidy checks the rules of this repository as a test. The rules of the repository say which
// package may import which package, and which code may read a clock, start a goroutine, print or
// exit. The rules of the repository limit the lengths of lines, functions and files. The main test
// of package tidy reads every file that git tracks or would add, and reports each violation with
// file, line and rule. The remaining tests of package tidy check with small examples that each rule
// detects violations.
//
//	rules.go    the table of packages and what each may import
//	imports.go  imports, cgo
//	calls.go    clocks, goroutines, global randomness, output, exit, panics, init
//	sizes.go    lines, functions, files
//	writers.go  the structs of package btl and of the packages below it have no foreign writers
//	names.go    how the comments of functions begin
//	folders.go  the table of folders in docs/architecture.md
//	text.go     words and paths that no file may contain
//	files.go    the files of the repository
//
// Because the rule of writers.go needs type information, this rule examines only non-test files
// that are compiled for the operating system on which the test of package tidy runs. All rules
// except the rule of writers.go examine only the syntax of a file, and ignore its build tags. The
// functions of package tidy are safe for concurrent use.
package tidy
