package reliability

import (
	"testing"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
)

// turnsPeer is a receiver that sends ACKs only when they are due, and counts the packets of each
// ACK.
type turnsPeer struct {
	r       Receiver
	credits *Credits
	rules   Rules
	next    seq.Num
	lulls   uint32
	acks    []int
}

func newTurnsPeer(ackEvery int) *turnsPeer {
	p := &turnsPeer{credits: NewCredits(4096), rules: quick(), next: 100}
	p.rules.AckEvery = ackEvery
	p.credits.Join()
	p.r.Init(p.next, WindowMax)
	for range 20 { // until the peer has all permitted credits
		p.arrive(300)
		p.ack()
		p.lulls += 2
	}
	p.ack()
	p.acks, p.lulls = nil, p.lulls+1
	return p
}

func (p *turnsPeer) ack() {
	p.acks = append(p.acks, int(p.r.unacked))
	p.r.Pace(p.lulls, &p.rules)
	p.r.TakeAck(p.credits)
}

// arrive delivers packets in one progress call. If an ACK is due at the end of the call, the ACK is
// sent.
func (p *turnsPeer) arrive(count int) {
	now := mono.Time(1000)
	for range count {
		p.r.Accept(now, p.next, &p.rules)
		p.next++
	}
	if p.r.AckDue() <= now {
		p.ack()
	}
}

// turn makes the sender send all permitted packets in bursts, and wait for the ACK.
func (p *turnsPeer) turn(lulls uint32, trains ...int) {
	for _, count := range trains {
		p.arrive(count)
	}
	p.lulls += lulls
}

// TestTurns checks that a sender that waits for each ACK gets ACKs after half as many packets,
// until the next check. Other senders get no early ACKs.
func TestTurns(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name     string
		ackEvery int
		lulls    uint32 // after each turn
		trains   []int
		sooner   bool
	}{
		{"takes turns", 64, 1, []int{44, 40}, true},
		{"turns in one train", 64, 1, []int{84}, true},
		{"comes all the time", 64, 0, []int{44, 40}, false},
		{"lulls before the ACK", 64, 2, []int{44, 40}, false},
		{"fewer than the ACK waits for", 64, 1, []int{44}, false},
		{"two packets", 2, 1, []int{1, 1}, true},
	} {
		p := newTurnsPeer(tc.ackEvery)
		for range waitedMin - 1 {
			p.turn(tc.lulls, tc.trains...)
		}
		if p.r.turns.sooner > 0 {
			t.Fatalf("%s: sooner after %d ACKs", tc.name, len(p.acks))
		}
		p.turn(tc.lulls, tc.trains...)
		if got := p.r.turns.sooner > 0; got != tc.sooner {
			t.Errorf("%s: sooner is %v, want %v", tc.name, got, tc.sooner)
		}
		p.acks = nil
		p.arrive((tc.ackEvery + 1) / 2)
		if got, want := len(p.acks) > 0, tc.sooner && tc.ackEvery > 2; got != want {
			t.Errorf("%s: acknowledged after half of the packets: %v, want %v", tc.name, got, want)
		}
	}
}

// TestTurnsEnd checks that a few turns are no evidence, and that the evidence is checked again
// later.
func TestTurnsEnd(t *testing.T) {
	t.Parallel()
	p := newTurnsPeer(64)
	for range 5 {
		for range waitedMin - 2 {
			p.turn(1, 84)
		}
		p.turn(2, 84)
	}
	if p.r.turns.sooner > 0 {
		t.Fatal("sooner, though the sender did not wait each time")
	}
	for range waitedMin + 1 { // after a turn of the other kind
		p.turn(1, 84)
	}
	p.acks = nil
	for range soonerAcks {
		p.turn(1, 32)
	}
	if len(p.acks) != soonerAcks {
		t.Fatalf("%d ACKs of %d times 32 packets", len(p.acks), soonerAcks)
	}
	p.acks = nil
	p.turn(1, 32)
	if len(p.acks) != 0 {
		t.Errorf("acknowledged after %d packets when it is to be looked at again", p.acks[0])
	}
}
