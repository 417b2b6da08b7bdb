// Package testenv tells tests whether the race detector is on, and which random seed to use.
// Package testenv skips tests that need a program or a device that is missing. Any goroutine may
// call any function.
package testenv
