//go:build !race

package testenv

// Race reports whether the race detector is on, which makes tests slow.
const Race = false
