// Package testenv tells tests about their environment: whether the race detector is on (Race),
// which random seed to use, and how to handle a missing program or device. Any goroutine may call
// any function.
package testenv
