package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/internal/mono"
)

// TestBlockedBesideOthers: a receiver whose program frees no region stops another stream of its
// port for at most 50 ms at a time, and for at most a quarter of the time. Its own datagrams are
// dropped and counted.
func TestBlockedBesideOthers(t *testing.T) {
	w := newSimWorld(t, 23, 1)
	const rate = 5000 // messages per second
	cfg := Config{
		Mode: Unreliable, Timeout: 10 * time.Second, Messages: 1 << 40, BitsPerSecond: 64 * 8 * rate,
	}
	g := Geometry{64, 4, 8}
	blocked := w.open(cfg, g, 0)
	into, _ := NewRing(g, nil)
	from, _ := NewRing(g, nil)
	rx, err := w.rx[0].newReceiver(into, cfg, 56)
	if err != nil {
		t.Fatal(err)
	}
	cfg.Unmonitored = true
	tx, err := w.tx.newSender(from, cfg, 55)
	if err != nil {
		t.Fatal(err)
	}
	if err := tx.addReceiver(rx.Identity()); err != nil {
		t.Fatal(err)
	}
	reads := true // whether the program of the first receiver reads
	got, longest, last := uint64(0), time.Duration(0), w.nw.Now()
	w.rx[0].after = func() {
		if reads {
			blocked.read()
		}
		for len(rx.regions) > 0 {
			r := <-rx.regions
			rx.Release(r)
			longest, last = max(longest, w.nw.Now().Sub(last)), w.nw.Now()
			got += uint64(r.Messages)
		}
	}
	w.nw.RunUntil(w.nw.Now().Add(2 * time.Second))
	if got == 0 || blocked.got == 0 {
		t.Fatalf("%d and %d messages beside a program that reads", got, blocked.got)
	}
	const seconds = 4
	reads, got, longest, last = false, 0, 0, w.nw.Now()
	w.nw.RunUntil(w.nw.Now().Add(seconds * time.Second))
	if got < seconds*rate*7/10 {
		t.Errorf("%d of %d messages arrived beside a blocked receiver", got, seconds*rate)
	}
	if longest > 2*stallMost {
		t.Errorf("the port stood still for %v, want at most %v", longest, stallMost)
	}
	if st := blocked.rx.Stats(); blocked.rx.state != stateRunning || st.Overrun == 0 {
		t.Errorf("the blocked receiver: state %v, %+v", blocked.rx.state, st)
	}
	w.nw.RunUntil(w.nw.Now().Add(7 * time.Second))
	if blocked.rx.state != stateDone {
		t.Error("a receiver without a free region does not end after Timeout")
	}
}

// crowd is a port with a stream whose program reads at once, and other streams that are blocked.
type crowd struct {
	w       *simWorld
	reader  *Receiver
	blocked []*Receiver
	every   time.Duration // interval at which the programs of the blocked receivers take a region
	stops   bool          // false: all programs read at once
	next    []mono.Time   // by blocked receiver: time of its program's next read
	got     uint64        // messages of the reader
	waited  time.Duration // time for which the port stood still
	last    mono.Time
	waits   bool
}

const crowdRate = 5000 // messages per second of each stream

func newCrowd(t *testing.T, blocked int, every time.Duration) *crowd {
	t.Helper()
	c := &crowd{w: newSimWorld(t, 29, 1), every: every, next: make([]mono.Time, blocked)}
	g := Geometry{64, 4, 8}
	for i := range blocked + 1 {
		cfg := Config{
			Mode: Unreliable, Timeout: 10 * time.Second, Messages: 1 << 40,
			BitsPerSecond: 64 * 8 * crowdRate,
		}
		into, _ := NewRing(g, nil)
		from, _ := NewRing(g, nil)
		rx, err := c.w.rx[0].newReceiver(into, cfg, uint64(500+i))
		if err != nil {
			t.Fatal(err)
		}
		cfg.Unmonitored = true
		tx, err := c.w.tx.newSender(from, cfg, uint64(700+i))
		if err == nil {
			err = tx.addReceiver(rx.Identity())
		}
		if err != nil {
			t.Fatal(err)
		}
		c.reader = rx
		if i < blocked {
			c.blocked = append(c.blocked, rx)
		}
	}
	c.w.rx[0].after = c.after
	c.run(2 * time.Second)
	for i := range c.next {
		c.next[i] = c.w.nw.Now().Add(every)
	}
	c.stops, c.got, c.waited = true, 0, 0
	return c
}

// after runs after each pass of the receivers' engine.
func (c *crowd) after() {
	now := c.w.nw.Now()
	if c.waits {
		c.waited += now.Sub(c.last)
	}
	c.last, c.waits = now, c.w.rx[0].Engine.data.waiting()
	for len(c.reader.regions) > 0 {
		r := <-c.reader.regions
		c.reader.Release(r)
		c.got += uint64(r.Received)
	}
	for i, rx := range c.blocked {
		for len(rx.regions) > 0 && (!c.stops || now >= c.next[i]) {
			c.next[i] = now.Add(c.every)
			rx.Release(<-rx.regions)
		}
	}
}

func (c *crowd) run(d time.Duration) { c.w.nw.RunUntil(c.w.nw.Now().Add(d)) }

// TestBlockedTogether: six receivers whose programs read too little, or nothing, together stop
// their port for no longer than one may.
func TestBlockedTogether(t *testing.T) {
	for _, every := range []time.Duration{10 * time.Millisecond, time.Hour} {
		c := newCrowd(t, 6, every)
		const seconds = 4
		c.run(seconds * time.Second)
		if c.got < seconds*crowdRate*7/10 {
			t.Errorf("beside six receivers that read every %v: %d of %d messages", every, c.got,
				seconds*crowdRate)
		}
		if most := seconds*time.Second/stallParts + stallMost; c.waited == 0 || c.waited > most {
			t.Errorf("six receivers that read every %v stop the port for %v, want at most %v", every,
				c.waited, most)
		}
	}
}

// TestStallTurns: receivers that are blocked all the time have equal shares of the time for which
// their port may be stopped, however seldom a datagram of theirs arrives. The end of a receiver
// takes nothing from the others.
func TestStallTurns(t *testing.T) {
	var s stall
	const step = 100 * time.Microsecond
	every := []time.Duration{step, step, step, 3 * time.Millisecond, 20 * time.Millisecond}
	rxs := make([]Receiver, len(every))
	stopped := make([]time.Duration, len(every))
	total := time.Duration(0)
	now := mono.Time(time.Hour)
	run := func(seconds int, from int) {
		clear(stopped)
		total = 0
		for i := range seconds * int(time.Second/step) {
			now = now.Add(step)
			for k := from; k < len(rxs); k++ { // while one stops the port, only its datagram is seen
				asks := time.Duration(i)*step%every[k] == 0
				if s.holder == &rxs[k] || s.holder == nil && asks {
					if s.may(&rxs[k], now) {
						stopped[k] += step
						total += step
					}
				}
			}
		}
	}
	check := func(seconds int, from int) {
		t.Helper()
		if most := time.Duration(seconds)*time.Second/stallParts + stallMost; total > most {
			t.Errorf("the port is stopped for %v of %d s, want at most %v", total, seconds, most)
		}
		for k := from; k < len(rxs); k++ {
			if share := total / time.Duration(len(rxs)-from); stopped[k] < share/2 {
				t.Errorf("receiver %d of %d has %v of %v", k, len(rxs), stopped[k], total)
			}
		}
	}
	run(10, 0)
	check(10, 0)
	for k := range 3 {
		s.leave(&rxs[k], now)
	}
	run(10, 3)
	check(10, 3)
	for k := range rxs {
		s.leave(&rxs[k], now)
	}
	if len(s.turns) != 0 || s.holder != nil {
		t.Errorf("%d receivers that have ended still have a turn, %v", len(s.turns), s.holder)
	}
}

// TestStalledBesideOldDatagrams: a sender that repeats an old datagram does not keep the stream of
// a stopped reader alive.
func TestStalledBesideOldDatagrams(t *testing.T) {
	c := newCrowd(t, 1, time.Hour)
	old := make([]byte, headerBytes+64)
	h := header{key: c.blocked[0].source.key}
	h.put(old)
	var again func()
	again = func() {
		c.w.nw.Inject(sim.Port{Node: c.w.tx.data.Index()}, sim.Port{Node: c.w.rx[0].data.Index()}, old)
		c.w.nw.After(100*time.Millisecond, again)
	}
	again()
	c.run(9 * time.Second)
	rx := c.blocked[0]
	if old := &rx.asm.track; rx.state != stateRunning || old.duplicates+old.stale == 0 {
		t.Fatalf("before Timeout: state %v, %+v, %v", rx.state, rx.Stats(), rx.err)
	}
	c.run(2 * time.Second)
	if rx.state != stateDone || !errors.Is(rx.Err(), ErrStalled) {
		t.Errorf("after Timeout: state %v, %v", rx.state, rx.Err())
	}
}

// TestQuietAfterBlocked: a stream whose reader has released all regions in time goes on, although
// no datagram arrives for longer than Timeout.
func TestQuietAfterBlocked(t *testing.T) {
	c := newCrowd(t, 1, 2*time.Second)
	c.run(time.Second)
	rx := c.blocked[0]
	if rx.blockedAt == 0 {
		t.Fatal("the receiver is not blocked")
	}
	c.w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		h, ok := parseHeader(d.Data)
		return sim.Verdict{Drop: ok && h.key == rx.source.key}
	})
	c.stops = false
	c.run(20 * time.Second)
	if rx.state != stateRunning {
		t.Errorf("ended: %v", rx.Err())
	}
}
