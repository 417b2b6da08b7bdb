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
	other   *simHost // sends the stream that is blocked
	blocked *Receiver
	reads   bool // whether the program of the blocked receiver reads
}

func newBesideBlocked(t *testing.T, cfg Config) *besideBlocked {
	t.Helper()
	b := &besideBlocked{w: newSimWorld(t, 41, 1), reads: true}
	cfg.Mode, cfg.Timeout, cfg.BitsPerSecond = Unreliable, 10*time.Second, 64*8*crowdRate
	g := Geometry{64, 4, 8}
	b.s = b.w.open(cfg, g, 0)
	b.other = b.w.host("other")
	into, _ := NewRing(g, nil)
	from, _ := NewRing(g, nil)
	cfg.Messages = 1 << 40
	var err error
	if b.blocked, err = b.w.rx[0].newReceiver(into, cfg, 56); err != nil {
		t.Fatal(err)
	}
	cfg.Unmonitored = true
	tx, err := b.other.newSender(from, cfg, 55)
	if err == nil {
		err = tx.addReceiver(b.blocked.Identity())
	}
	if err != nil {
		t.Fatal(err)
	}
	b.other.ctl.Kick()
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

// isData reports whether a datagram carries the given message of the stream that ends.
func (b *besideBlocked) isData(d *sim.Datagram, ordinal uint64) bool {
	h, ok := parseHeader(d.Data)
	return ok && h.datagram != probeDatagram && h.key == b.s.rx.source.key && h.ordinal == ordinal
}

// A receiver that misses a datagram ends soon after the end message, although the reader of another
// stream of its port is too slow all the time.
func TestEndBesideSlowReader(t *testing.T) {
	const messages = 5000
	b := newBesideBlocked(t, Config{Messages: messages})
	b.reads = false
	b.w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{Drop: b.isData(d, messages/2)}
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

// A receiver that misses a datagram ends soon after the end message, although the sender of another
// stream of its port has ended this stream while its receiver stopped the port, and does not
// acknowledge the report.
func TestEndBesideStopThatHasEnded(t *testing.T) {
	const messages = 5000
	b := newBesideBlocked(t, Config{Messages: messages})
	silent := false
	b.w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		return sim.Verdict{
			Drop: b.isData(d, messages/2) || silent && d.From.Node == b.other.ctl.Index(),
		}
	})
	b.w.until(time.Minute, func() bool { return b.s.tx.stats.Sent > messages-500 })
	b.reads = false
	b.w.until(time.Minute, func() bool { return b.w.rx[0].stall.holder == b.blocked })
	bad := b.other.sending[0].links[0]
	b.other.sendLetter(bad.ep, &letter{Kind: letterEnd, Key: bad.s.key, End: &ending{
		Total: b.blocked.asm.track.edge,
	}})
	b.other.ctl.Kick()
	b.w.until(time.Minute, func() bool { return b.blocked.end != nil })
	silent = true
	b.w.until(time.Minute, func() bool { return b.s.rx.end != nil })
	b.w.nw.RunUntil(b.w.nw.Now().Add(time.Second))
	if b.blocked.state != stateEnding {
		t.Fatalf("the other receiver: state %v, %v", b.blocked.state, b.blocked.err)
	}
	if !b.s.ended() {
		t.Errorf("1 s after the end message: receiver in state %v, sender in state %v", b.s.rx.state,
			b.s.tx.state)
		b.w.until(time.Minute, b.s.ended)
	}
	b.s.verdict(messages, 1, 0)
}
