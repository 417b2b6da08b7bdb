//go:build !race

package stream

// raceDetector says that tests run with the race detector, ten times slower.
const raceDetector = false
