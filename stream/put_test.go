package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/frag"
)

// TestPutsOfARing: however small the receiver's ring is, several puts fill it, so that the sender
// need not stand still until one of them is told and given back.
func TestPutsOfARing(t *testing.T) {
	const laps = 20
	for _, g := range []Geometry{{3000, 64, 1}, {3000, 2, 32}, {3000, 3, 1}, {3000, 1, 1}} {
		w := newSimWorld(t, 11, 1)
		total := uint64(laps * g.Messages())
		s := w.open(Config{Messages: total}, g, 0)
		most := uint64(0)
		s.w.rx[0].after = func() {
			s.read()
			for _, k := range s.tx.links {
				most = max(most, k.putHi-k.putLo)
			}
		}
		w.until(time.Minute, s.ended)
		s.verdict(total, 0, 0)
		parts := uint64(min(g.Messages(), putsPerRing))
		if puts := s.tx.stats.Datagrams; most < parts || puts < laps*parts {
			t.Errorf("%+v: %d puts, %d of them at a time", g, puts, most)
		}
	}
}

// TestNoPutBegins: a receiver for which the sender begins no put, whatever the reason, ends after
// Config.Timeout. Here the size of puts is an overflow to 0 bytes.
func TestNoPutBegins(t *testing.T) {
	w := newSimWorld(t, 61, 1)
	s := w.open(Config{Messages: 4000, Timeout: time.Second, BitsPerSecond: 64 * 8 * 5000},
		Geometry{64, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.got > 100 })
	s.tx.links[0].ringMessages = 1 << 60
	w.until(3*time.Second, func() bool { return s.tx.state == stateDone })
	if !errors.Is(s.tx.err, ErrStalled) {
		t.Error(s.tx.err)
	}
}

// A receiver that does not acknowledge a put holds the sender for a bounded time only, even if the
// transport does not end the connection.
func TestPutNeverAcknowledged(t *testing.T) {
	const timeout = 100 * time.Millisecond // the transport's time-out is much longer
	w := newSimWorld(t, 43, 1)
	s := w.open(Config{
		Messages: 1 << 40, BitsPerSecond: 3000 * 8 * 1000, Timeout: timeout, Grace: timeout,
	}, Geometry{3000, 4, 8}, 0)
	w.until(time.Minute, func() bool { return s.rx.stats.Datagrams > 20 })
	w.nw.SetFilter(func(d *sim.Datagram) sim.Verdict {
		var h frag.Header
		_, err := frag.Decode(d.Data, &h)
		return sim.Verdict{
			Drop: err == nil && d.From.Node == w.tx.ctl.Index() && h.Flags&frag.FlagPut != 0,
		}
	})
	began := w.nw.Now()
	w.until(time.Minute, func() bool { return s.tx.state == stateDone })
	most := 2 * endTimeouts * timeout
	took := w.nw.Now().Sub(began)
	if !errors.Is(s.tx.err, ErrStalled) || took < endTimeouts*timeout || took > most {
		t.Errorf("after %v: %v", took, s.tx.err)
	}
}

// A put waits for as long as puts of another stream to the same endpoint complete, because the
// transport sends them in order. Control messages have time for these puts, too.
func TestPutBehindOtherStream(t *testing.T) {
	w := newSimWorld(t, 44, 1)
	var streams [2]*simStream
	for i := range streams {
		streams[i] = w.open(Config{Messages: 1 << 40, BitsPerSecond: 3000 * 8 * 1000},
			Geometry{3000, 4, 8}, 0)
	}
	w.rx[0].after = func() {
		for _, s := range streams {
			s.read()
		}
	}
	w.until(time.Minute, func() bool {
		ks := streams[1].tx.links
		return streams[0].got > 20 && streams[1].got > 20 && ks[0].putLo < ks[0].putHi
	})
	other, k, now := streams[0].tx.links[0], streams[1].tx.links[0], w.nw.Now()
	k.puts[k.putLo%putsMax].size = 10 * putBytesPerSecond
	if extra := other.flushTime() - endTimeouts*other.s.cfg.Timeout; extra < 10*time.Second {
		t.Errorf("control messages behind a put of another stream get %v more", extra)
	}
	late := now.Add(-k.putTime() - time.Second)
	k.movedAt, other.movedAt = late, now
	if k.watch(now); k.state != linkReady {
		t.Errorf("beside puts that complete: %v", k.s.err)
	}
	k.movedAt, other.movedAt = late, late
	if k.watch(now); k.state == linkReady {
		t.Error("no put completes, and the link goes on")
	}
}
