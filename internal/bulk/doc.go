// Package bulk copies large blocks between memory of different cores.
//
// What makes such a copy slow is not the bytes but who owns their cache lines: a store to a line
// that another core has read first fetches the line, only to overwrite all of it. The string
// instruction of amd64 knows that it will fill whole lines and fetches none. Where two CPUs share
// no cache it is several times faster than copy, where they do, as fast. The race detector sees
// copy alone, so under it that is used.
package bulk
