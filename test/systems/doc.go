// Command systems checks the types of all packages of the module, tests included, for other
// operating systems and architectures, and runs analyzers of "go vet" on them.
//
//	go run ./test/systems
//
// The command reports what "go build ./..." and "go vet ./..." report for each system without cgo:
// a missing function, an unused import, a constant that overflows an int of 32 bits. The command
// compiles nothing, and reads the declarations of the standard library and of other modules from
// their sources. So the command needs seconds for a system, where a build with an empty cache needs
// minutes. The command finds no errors in function bodies of other modules and in assembly, and
// none of the few errors that only the compiler's back end and the linker report.
package main
