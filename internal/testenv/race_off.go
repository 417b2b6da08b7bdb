//go:build !race

package testenv

// Race says whether the race detector is on, which makes tests slow.
const Race = false
