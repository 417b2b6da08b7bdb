// Package bulk copies large blocks between memory of different cores.
//
// Such a copy is slow because of the ownership of cache lines: a store to a line that another core
// has read first fetches the line, only to overwrite all of it. The string instruction of amd64
// knows that it fills whole lines, and fetches none. It is several times as fast as the builtin
// copy between CPUs without a common cache, and equally fast between CPUs with one. The race
// detector cannot see the string instruction, so race builds use the builtin copy.
package bulk
