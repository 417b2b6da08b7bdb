package stream

import (
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// besideBlocked has a receiver whose stream ends beside a stream of the same port that is blocked.
type besideBlocked struct {
	w       *simWorld
	s       *simStream
	blocked *Receiver
	reads   bool // whether the program of the blocked receiver reads
}

func newBesideBlocked(t *testing.T, cfg Config) *besideBlocked {
	t.Helper()
	b := &besideBlocked{w: newSimWorld(t, 41, 1), reads: true}
	cfg.Mode, cfg.Timeout, cfg.BitsPerSecond = Unreliable, 10*time.Second, 64*8*crowdRate
	g := Geometry{64, 4, 8}
	b.s = b.w.open(cfg, g, 0)
	into, _ := NewRing(g, nil)
	from, _ := NewRing(g, nil)
	cfg.Messages = 1 << 40
	var err error
	if b.blocked, err = b.w.rx[0].newReceiver(into, cfg, 56); err != nil {
		t.Fatal(err)
	}
	cfg.Unmonitored = true
	tx, err := b.w.tx.newSender(from, cfg, 55)
	if err == nil {
		err = tx.addReceiver(b.blocked.Identity())
	}
	if err != nil {
		t.Fatal(err)
	}
	slow := b.w.nw.Now()
	b.w.rx[0].after = func() {
		b.s.read()
		now := b.w.nw.Now()
		for len(b.blocked.regions) > 0 && (b.reads || now.Sub(slow) > time.Second) {
			slow = now
			b.blocked.Release(<-b.blocked.regions)
		}
	}
	return b
}

// A receiver that misses a datagram ends soon after the end message, although the reader of another
// stream of its port is too slow all the time.
func TestEndBesideSlowReader(t *testing.T) {
	const messages = 5000
	b := newBesideBlocked(t, Config{Messages: messages})
	b.reads = false
	b.w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		h, ok := parseHeader(d.Data)
		return sim.Verdict{
			Drop: ok && h.datagram != probeDatagram && h.key == b.s.rx.source.key &&
				h.ordinal == messages/2,
		}
	})
	b.w.until(time.Minute, func() bool { return b.s.rx.end != nil })
	began := b.w.nw.Now()
	b.w.nw.RunUntil(began.Add(time.Second))
	if b.blocked.blockedAt == 0 {
		t.Fatal("the other stream is not blocked")
	}
	if !b.s.ended() {
		t.Errorf("1 s after the end message: receiver in state %v, sender in state %v", b.s.rx.state,
			b.s.tx.state)
		b.w.nw.RunUntil(began.Add(time.Minute))
	}
	b.s.verdict(messages, 1, 0)
}

// A receiver whose last datagrams wait at the port behind those of another stream, for longer than
// Grace, reports no loss.
func TestLastDatagramsBehindStop(t *testing.T) {
	const messages = 5000
	b := newBesideBlocked(t, Config{Messages: messages, Grace: 2 * time.Millisecond})
	b.w.until(time.Minute, func() bool { return b.s.tx.stats.Sent > messages-100 })
	b.reads = false
	b.w.until(time.Minute, func() bool { return b.s.rx.end != nil })
	ended := b.w.nw.Now()
	behind := messages - b.s.rx.Stats().Received
	b.w.until(time.Minute, func() bool { return !b.w.rx[0].Engine.data.waiting() })
	if took := b.w.nw.Now().Sub(ended); took < 5*b.s.rx.cfg.Grace || behind == 0 {
		t.Fatalf("the port stops for %v after the end message, and %d messages wait", took, behind)
	}
	b.w.until(time.Minute, b.s.ended)
	b.s.verdict(messages, 0, 0)
}
