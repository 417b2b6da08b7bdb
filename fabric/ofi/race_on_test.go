//go:build linux && cgo && race

package ofi

// raceDetector says whether the tests run under the race detector.
const raceDetector = true
