package reliability

import (
	"slices"
	"testing"
	"time"
)

// TestUnheard checks packets that the peer dropped before the connection existed. Each packet is
// retransmitted at once and only once, and the window is unchanged.
func TestUnheard(t *testing.T) {
	t.Parallel()
	for name, rules := range map[string]Rules{"adaptive": Adaptive(), "usnic": Usnic()} {
		t.Run(name, func(t *testing.T) {
			a := newDriven(t, func(r *Rules) { *r = rules })
			a.send(3, Data)
			window := a.snd.Path().WindowPackets
			a.after(time.Millisecond).snd.Unheard()
			a.snd.Unheard() // packets on the resend list are not queued again
			tokens, causes := a.again()
			if !slices.Equal(tokens, []Token{0, 1, 2}) {
				t.Errorf("packets %d are sent again, for %d", tokens, causes)
			}
			if got := a.snd.Path().WindowPackets; got != window {
				t.Errorf("a window of %d packets, and %d before", got, window)
			}
			a.ack(3, 2)
			a.snd.Unheard()
			if tokens, _ := a.again(); len(tokens) > 0 || a.snd.InFlight() != 0 {
				t.Errorf("%d of none sent again, %d in flight", len(tokens), a.snd.InFlight())
			}
		})
	}
}

// A Sender that only counts keeps no packets.
func TestUnheardCounted(t *testing.T) {
	t.Parallel()
	var s Sender
	s.Init(0, 1, 16)
	s.Grant(4)
	s.Count()
	s.Unheard()
	if s.InFlight() != 1 {
		t.Errorf("%d packets in flight", s.InFlight())
	}
}
