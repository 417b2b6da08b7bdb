//go:build !race

package matrix

// raceDetector says whether the tests run under the race detector, which makes them slow.
const raceDetector = false
