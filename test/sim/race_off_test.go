//go:build !race

package sim_test

// raceDetector says whether the tests run under the race detector, which makes them slow.
const raceDetector = false
