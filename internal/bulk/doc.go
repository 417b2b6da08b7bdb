// Package bulk copies large blocks of memory that one CPU writes and another CPU reads.
//
// A copy between CPUs is slow because a CPU must own a cache line before writing to it. If a second
// CPU has read a cache line, an ordinary store to this line first fetches the line from the second
// CPU. The string instruction of amd64 (REP MOVSB) writes whole cache lines without fetching their
// content. Between CPUs without a common cache, the string instruction is several times as fast as
// the builtin copy. Between CPUs with a common cache, the string instruction and the builtin copy
// are equally fast. Builds with the race detector use the builtin copy, because the detector does
// not see what the string instruction accesses.
package bulk
