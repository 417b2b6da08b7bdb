package reliability

import (
	"testing"
	"time"

	"gobtl/internal/mono"
)

// TestCopiesInOneGo checks that duplicates that arrive together share one ACK, which counts as one
// answer. If that ACK is lost, later duplicates are answered, too.
func TestCopiesInOneGo(t *testing.T) {
	t.Parallel()
	credits := NewCredits(8)
	credits.Join()
	var r Receiver
	r.Init(100, WindowMax)
	now := mono.Time(0)
	for burst := range answersMax {
		now = now.Add(time.Microsecond)
		for i := range 2 * answersMax {
			if !r.Repeated(now) || r.AckDue() > now {
				t.Fatalf("copy %d of burst %d is not answered", i, burst)
			}
		}
		r.TakeAck(credits)
	}
	if r.Repeated(now.Add(time.Microsecond)) {
		t.Error("answers are not bounded")
	}
}
