//go:build race

package conformance

// raceDetector makes everything several times as slow.
const raceDetector = true
