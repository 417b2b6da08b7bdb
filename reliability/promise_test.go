package reliability

import (
	"testing"
	"time"
)

// TestPromiseAfterRefused checks that a caller may still call Admit for a packet whose number it
// has reserved while Open returned true, if refused packets then count as bytes in flight again.
// The refused packets count again when the peer has accepted one of them, or when the Sender
// retransmits one of them.
func TestPromiseAfterRefused(t *testing.T) {
	const rtt, large, sizeBytes = time.Millisecond, 10, 1400
	for name, c := range map[string]struct {
		bytesMax int
		accepted bool // the peer accepts a refused packet before the reserved number is used
	}{
		"accepted": {4096, true},
		"asked":    {1, false},
	} {
		t.Run(name, func(t *testing.T) {
			a, next := newWarm(t, rtt)
			a.send(large, Data)
			a.snd.Carry(large * sizeBytes)
			a.after(rtt).snd.BoundBytes(adaptiveFirst.Add(uint32(next))-1, 4096, c.bytesMax)
			for i := range large {
				a.snd.NoMemory(a.now, Token(next+i), sizeBytes, time.Hour)
			}
			again := func() {
				for a.segs.ResendsWaiting() == 0 {
					a.now = max(a.now, a.segs.Deadline())
					a.expire()
				}
				wantAgain(t, a, next)
			}
			if c.accepted {
				again()
			}
			if !a.snd.Open() {
				t.Fatal("no number can be reserved")
			}
			if c.accepted {
				a.after(rtt).ack(next+1, next)
				a.snd.Carry(-sizeBytes)
				a.snd.BoundBytes(adaptiveFirst.Add(uint32(next)), 4096, c.bytesMax)
			} else {
				again()
			}
			if a.snd.Open() || !a.snd.Admits() {
				t.Errorf("open: %t, admits a packet: %t, %d bytes of %d in flight", a.snd.Open(),
					a.snd.Admits(), a.snd.bytes, c.bytesMax)
			}
			a.send(1, Data)
			a.check()
		})
	}
}
