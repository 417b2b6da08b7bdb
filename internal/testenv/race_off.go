//go:build !race

package testenv

// Race reports whether the race detector is on, which slows down tests.
const Race = false
