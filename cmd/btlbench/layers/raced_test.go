package layers

import (
	"testing"

	"gobtl/internal/testenv"
)

// notRaced skips a test under the race detector, which makes it ten times as long: TestAllTests
// shows it the same loops and goroutines.
func notRaced(t *testing.T) {
	t.Helper()
	if testenv.Race {
		t.Skip("other tests show the race detector the same loops and goroutines")
	}
}
