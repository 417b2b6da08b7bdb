//go:build race

package testenv

// Race says whether the race detector is on, which slows down tests.
const Race = true
