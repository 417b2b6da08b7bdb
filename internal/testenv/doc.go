// Package testenv is what tests want to know of the machine that they run on, and of who runs them:
// whether the race detector is on (Race), which seed to draw from, and what to do without a program
// or a device that a test needs. Any goroutine may call anything.
package testenv
