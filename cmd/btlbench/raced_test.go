package main

import "testing"

// raceDetector says whether the tests run under the race detector.
var raceDetector bool

// notRaced skips a test under the race detector, which makes it ten times as long: TestAllTests
// shows it the same loops and goroutines.
func notRaced(t *testing.T) {
	t.Helper()
	if raceDetector {
		t.Skip("other tests show the race detector the same loops and goroutines")
	}
}
