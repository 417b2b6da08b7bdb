// Package testenv tells tests whether the race detector is on, which random seed to use, and what
// to do if a program or device is missing. Any goroutine may call any function.
package testenv
