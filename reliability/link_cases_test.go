package reliability

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"gobtl/internal/mono"
	"gobtl/internal/seq"
	"gobtl/internal/testenv"
)

// cleanLink is a link without faults, with the rules of the usnic profile.
func cleanLink() linkConfig {
	way := faults{delay: 20 * time.Microsecond}
	return linkConfig{
		rules: Usnic(), first: 1<<32 - 1000, total: 20000, segments: 8192, capacity: 4096,
		data: way, acks: way,
	}
}

// window is the usnic profile with another window.
func window(packets int) Rules {
	return Rules{WindowPackets: packets}.WithDefaults(Usnic())
}

// TestLinkClean checks that a link without losses has no retransmissions and few ACKs.
func TestLinkClean(t *testing.T) {
	t.Parallel()
	for _, capacity := range []int{4096, 256, 92, 8, 1} {
		t.Run(fmt.Sprintf("capacity=%d", capacity), func(t *testing.T) {
			c := cleanLink()
			c.capacity = capacity
			l := newLink(t, c, rand.New(rand.NewPCG(1, 1)))
			l.run()
			if l.copies != 0 || l.duplicates != 0 {
				t.Errorf("%d packets sent again, %d duplicates", l.copies, l.duplicates)
			}
			// There is one ACK for every AckEvery packets or every quarter of the credits. In
			// addition there are the ACKs for the initial credits, which double with each ACK, and
			// the delayed ACKs.
			most := c.total/min(c.rules.AckEvery, max(capacity/4, 1)) + 1
			if most += min(8, capacity-1) + c.total/capacity; capacity == 1 {
				most = c.total
			}
			if l.explicit > most {
				t.Errorf("%d ACKs for %d packets, at most %d expected", l.explicit, c.total, most)
			}
			// A sender without credits waits for the link and one progress call at each end, and
			// never for an ACK delay. Credits double in the first round trips, until a quarter of
			// the credits exceeds AckEvery.
			trip := c.data.delay + c.acks.delay + 2*pass
			trips := c.total/min(capacity, 8*c.rules.AckEvery) + 8
			if longest := time.Duration(trips) * trip; l.now > mono.Time(longest) {
				t.Errorf("took %v, at most %v expected", time.Duration(l.now), longest)
			}
		})
	}
}

// TestLink runs a link with one kind of fault after the other, and then with all faults at once.
func TestLink(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t, 0)
	const us, ms = time.Microsecond, time.Millisecond
	cases := []linkConfig{
		{name: "1% loss", data: faults{loss: 0.01}},
		{name: "30% loss", data: faults{loss: 0.3}, acks: faults{loss: 0.3}, total: 3000},
		{name: "most lost", data: faults{loss: 0.9}, acks: faults{loss: 0.5}, total: 100},
		{name: "ACKs lost", acks: faults{loss: 0.7}},
		{name: "duplicated", data: faults{dup: 0.5}, acks: faults{dup: 0.5}},
		{name: "reordered", data: faults{jitter: 200 * us}, acks: faults{jitter: 200 * us}},
		{name: "far too late", data: faults{late: 0.05, lateBy: 3 * time.Second}, total: 2000},
		{name: "refused", refuse: 0.05, nack: 0.05, total: 5000},
		{name: "queue full", data: faults{loss: 0.05}, full: 0.8},
		{name: "crowd", crowd: true, capacity: 50, data: faults{loss: 0.01}, total: 5000},
		{name: "window of one", rules: window(1), data: faults{loss: 0.1, dup: 0.1}, total: 500},
		{name: "window of two", rules: window(2), data: faults{loss: 0.1, dup: 0.1}, total: 500},
		{name: "window of eight", rules: window(8), acks: faults{loss: 0.1}, total: 2000},
		{name: "one credit", capacity: 1, data: faults{loss: 0.1}, acks: faults{loss: 0.1}, total: 300},
		{name: "few segments", segments: 3, data: faults{loss: 0.05}, total: 1000},
		{
			name: "all", total: 5000, capacity: 92, refuse: 0.01, nack: 0.01, full: 0.1, crowd: true,
			data: faults{loss: 0.05, dup: 0.05, late: 0.01, jitter: 50 * us, lateBy: 150 * ms},
			acks: faults{loss: 0.05, dup: 0.05, late: 0.01, jitter: 50 * us, lateBy: 150 * ms},
		},
	}
	for i, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			newLink(t, c.withDefaults(), rand.New(rand.NewPCG(seed, uint64(i)))).run()
		})
	}
}

// withDefaults fills in the missing fields of a case from cleanLink.
func (c linkConfig) withDefaults() linkConfig {
	d := cleanLink()
	c.rules = c.rules.WithDefaults(d.rules)
	c.first = d.first
	c.total = or(c.total, d.total)
	c.segments = or(c.segments, d.segments)
	c.capacity = or(c.capacity, d.capacity)
	c.data.delay, c.acks.delay = d.data.delay, d.acks.delay
	return c
}

// TestLinkRandom runs random links, from first numbers that make the window wrap.
func TestLinkRandom(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t, 0)
	for i := range uint64(100) {
		rng := rand.New(rand.NewPCG(seed, i))
		rare := func(most float64) float64 { // in half of the cases no fault
			return max(0, 2*rng.Float64()-1) * most
		}
		way := func() faults {
			return faults{
				loss: rare(0.3), dup: rare(0.3), late: rare(0.1),
				delay:  time.Duration(rng.IntN(500_000)),
				jitter: time.Duration(rng.IntN(200_000)),
				lateBy: time.Duration(rng.IntN(400_000_000)),
			}
		}
		c := linkConfig{
			rules: Rules{
				WindowPackets: 1 << rng.IntN(9),
				AckEvery:      1 + rng.IntN(70),
			}.WithDefaults(Usnic()),
			first: starts[rng.IntN(len(starts))] - seq.Num(rng.IntN(300)),
			total: 400, segments: 1 + rng.IntN(300), capacity: 1 + rng.IntN(300),
			data: way(), acks: way(), refuse: rare(0.1), nack: rare(0.1), full: rare(0.5),
			crowd: rng.IntN(2) == 0,
		}
		t.Run(fmt.Sprint(i), func(t *testing.T) { newLink(t, c, rng).run() })
	}
}

// TestLinkOutage interrupts the link for a while. During the outage the packets in flight are
// retransmitted at growing intervals. After the outage all packets arrive within two of the
// time-outs that were running.
func TestLinkOutage(t *testing.T) {
	t.Parallel()
	seed := testenv.Seed(t, 0)
	for i, outage := range []time.Duration{
		50 * time.Millisecond, 150 * time.Millisecond, time.Second, 20 * time.Second,
	} {
		for _, window := range []int{1, 64, 4096} {
			t.Run(fmt.Sprintf("%v/window=%d", outage, window), func(t *testing.T) {
				c := cleanLink()
				c.rules.WindowPackets = window
				c.total = min(20000, 100*window)
				c.data.jitter = 10 * time.Microsecond
				c.outageAfter, c.outageFor = c.total/3, outage
				l := newLink(t, c, rand.New(rand.NewPCG(seed, uint64(i))))
				l.run()
				// The time-outs double from the first to the longest, and then stay at the longest.
				times := 1
				for d := c.rules.ResendTimeout; d < c.rules.ResendTimeoutMax; d *= 2 {
					times++
				}
				times += int(outage / c.rules.ResendTimeoutMax)
				if l.outageCopies > times*window {
					t.Errorf("%d copies sent into an outage of %v, window %d", l.outageCopies, outage, window)
				}
				if l.mark == 0 || l.recovered > 2*l.longest {
					t.Errorf("recovered after %v, time-out %v", l.recovered, l.longest)
				}
				t.Logf("%d copies during the outage, recovered %v after it, time-out %v", l.outageCopies,
					l.recovered, l.longest)
			})
		}
	}
}
