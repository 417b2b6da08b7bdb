//go:build race

package testenv

// Race is true if the race detector is on, which slows down tests.
const Race = true
