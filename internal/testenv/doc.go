// Package testenv tells tests whether the race detector is on and which random seed to use, and
// skips tests whose programs or devices are missing. Any goroutine may call any function.
package testenv
