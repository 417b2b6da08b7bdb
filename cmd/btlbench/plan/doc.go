// Package plan contains the flags of btlbench, and the list of rounds that follows from the flags,
// each with one test, size, window and layer.
//
//	flags: tests x sizes x windows x layers x loads  -->  Spec, one for each round, of which both
//	                                                      sides of a session are told
//
// The package only parses, checks and counts. All values from users and peers are limited. The
// values may be used by one goroutine at a time.
package plan
