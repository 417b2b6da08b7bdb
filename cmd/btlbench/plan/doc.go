// Package plan is what btlbench can be asked to measure: the values of its flags, and from them the
// rounds, each a stretch of one test, size, window and layer.
//
//	flags: tests x sizes x windows x layers x loads  -->  Spec, one for each round, of which both
//	                                                      sides of a session are told
//
// It does nothing but parse, check and count. Everything that a user or a peer may give is bounded
// here. Values are plain: whoever has one may use it, one goroutine at a time.
package plan
