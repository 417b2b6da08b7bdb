package pml

import "testing"

// TestCredit checks the limits of a peer's window, and reports that are old or claim too much.
func TestCredit(t *testing.T) {
	c := newCredit(&Config{EnvelopesMax: 4, UnexpectedBytes: 1000})
	c.next, c.taken = ^uint32(0), ^uint32(0) // the numbers of envelopes begin again at 0
	for range 3 {
		c.spend(300)
	}
	if !c.mayName() || !c.mayKeep(100) || c.mayKeep(101) {
		t.Errorf("3 messages of 900 bytes: one more %v, 100 bytes %v, 101 bytes %v",
			c.mayName(), c.mayKeep(100), c.mayKeep(101))
	}
	if c.spend(0); c.mayName() || !c.mayKeep(100) {
		t.Errorf("4 messages: one more %v, 100 bytes %v", c.mayName(), c.mayKeep(100))
	}
	for _, report := range []struct {
		what  string
		taken uint32
		bytes uint64
		ok    bool
		room  uint64
	}{
		{"two messages", 1, 600, true, 700},
		{"an old report", 0, 300, true, 700},
		{"messages that were not sent", 4, 900, false, 700},
		{"bytes that were not sent", 3, 901, false, 700},
		{"all", 3, 900, true, 1000},
	} {
		if ok := c.report(report.taken, report.bytes); ok != report.ok {
			t.Errorf("%s: %v", report.what, ok)
		}
		if !c.mayName() || !c.mayKeep(report.room) || c.mayKeep(report.room+1) {
			t.Errorf("%s: the room is not %d bytes: %+v", report.what, report.room, c)
		}
	}
}
