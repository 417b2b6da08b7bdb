//go:build linux

package stream

import (
	"errors"
	"fmt"
	"path/filepath"
	"testing"
	"time"
)

// mapped returns a ring in a file, and the same ring as another process maps it.
func mapped(t *testing.T, g Geometry) (own, other *Ring) {
	t.Helper()
	name := filepath.Join(t.TempDir(), "ring")
	own, err := CreateRing(name, g)
	if err != nil {
		t.Fatal(err)
	}
	if other, err = OpenRing(name); err != nil {
		t.Fatal(err)
	}
	return own, other
}

// fill writes a value into a word of all regions.
func fill(r *Ring, word int, value uint64) {
	for i := range r.geo.Regions {
		r.set(i, word, value)
	}
}

// scribble calls fill again and again.
func (w *simWorld) scribble(r *Ring, word int, value uint64) {
	fill(r, word, value)
	w.nw.After(time.Millisecond, func() { w.scribble(r, word, value) })
}

// spoiltConfig is the configuration of the streams with nonsense in their rings.
var spoiltConfig = Config{
	Messages: 300, BitsPerSecond: 64 * 8 * 1000, Overrun: Drop, Timeout: time.Second,
}

// eachWord runs a test with nonsense in each word of the regions.
func eachWord(t *testing.T, test func(t *testing.T, mode Mode, word int, value uint64)) {
	t.Helper()
	for word, name := range []string{
		wordState: "state", wordFirst: "first", wordMessages: "messages", wordReceived: "received",
		wordSkip: "skip", wordBitmap: "bitmap",
	} {
		for _, value := range []uint64{0, 3, 1 << 40, 1<<64 - 1} {
			for _, mode := range []Mode{Reliable, Unreliable} {
				t.Run(fmt.Sprint(mode, " ", name, " ", value), func(t *testing.T) {
					test(t, mode, word, value)
				})
			}
		}
	}
}

// A process that maps the file of a receiver's ring, and writes nonsense into the words of its
// regions, spoils at most that stream. The process that receives goes on with its other streams.
func TestForeignWordsOfReceiver(t *testing.T) {
	eachWord(t, func(t *testing.T, mode Mode, word int, value uint64) {
		w := newSimWorld(t, 61, 1)
		ring, other := mapped(t, roguesGeometry)
		cfg := spoiltConfig
		cfg.Mode = mode
		rx, err := w.rx[0].newReceiver(ring, cfg, 78)
		if err != nil {
			t.Fatal(err)
		}
		spoilt := &simStream{w: w, rx: rx}
		spoilt.send(w.tx, cfg, 98, rx.Identity())
		cfg.Messages *= 2
		s := w.receiver(w.rx[0], cfg, 77)
		w.rx[0].after = func() {
			s.read()
			spoilt.read()
		}
		s.send(w.tx, cfg, 99, s.rx.Identity())
		w.until(time.Minute, func() bool { return rx.stats.Datagrams > 10 })
		w.scribble(other, word, value)
		w.until(time.Minute, func() bool { return spoilt.ended() && s.ended() })
		if s.verdict(2*spoiltConfig.Messages, 0, 0); word == wordMessages || word == wordReceived {
			if got := rx.stats.Received; rx.err != nil || got != spoiltConfig.Messages {
				t.Errorf("%d messages of the spoilt stream, %v", got, rx.err)
			}
		}
	})
}

// A producer in another process that writes nonsense into the words of its regions spoils its own
// stream. A word that the sender needs, and that is out of its range, ends this stream with a clear
// error. The process that sends goes on with its other streams.
func TestForeignWordsOfSender(t *testing.T) {
	eachWord(t, func(t *testing.T, mode Mode, word int, value uint64) {
		w := newSimWorld(t, 62, 2)
		ring, other := mapped(t, roguesGeometry)
		cfg := spoiltConfig
		cfg.Mode = mode
		spoilt := w.receiver(w.rx[1], Config{Mode: mode, Timeout: cfg.Timeout}, 78)
		begun := false
		var err error
		if spoilt.tx, err = w.tx.newSender(ring, cfg, 98); err != nil {
			t.Fatal(err)
		}
		if err := spoilt.tx.addReceiver(spoilt.rx.Identity()); err != nil {
			t.Fatal(err)
		}
		var produce func()
		produce = func() {
			other.SetAllPopulated(true)
			if begun {
				fill(other, word, value)
			}
			w.nw.After(time.Millisecond, produce)
		}
		produce()
		cfg.Messages *= 2
		s := w.receiver(w.rx[0], cfg, 77)
		s.send(w.tx, cfg, 99, s.rx.Identity())
		w.until(time.Minute, func() bool { return spoilt.tx.stats.Sent > 10 })
		begun = true
		w.until(time.Minute, s.ended)
		s.verdict(2*spoiltConfig.Messages, 0, 0)
		wrong := word == wordMessages && value > uint64(roguesGeometry.RegionMessages) ||
			word == wordSkip && value > ordinalsMax
		if wrong {
			w.until(time.Minute, spoilt.ended)
			if !errors.Is(spoilt.tx.err, ErrFile) || !errors.Is(spoilt.rx.err, ErrPeerFailed) {
				t.Errorf("sender %v, receiver %v", spoilt.tx.err, spoilt.rx.err)
			}
		}
	})
}

// A Reader in another process returns regions of at most RegionMessages messages, whatever is in
// the words of the ring.
func TestForeignWordsOfReader(t *testing.T) {
	eachWord(t, func(t *testing.T, _ Mode, word int, value uint64) {
		ring, other := mapped(t, roguesGeometry)
		for i := range roguesGeometry.Regions {
			ring.open(i, uint64(8*i), 8)
			ring.mark(i, 0, 8)
			ring.set(i, wordState, regionPopulated)
			other.set(i, word, value)
		}
		d := ring.NewReader(0)
		for range 2 * roguesGeometry.Regions {
			r, ok := d.Next()
			if !ok {
				break
			}
			if r.Messages > 8 || r.Received < 0 || r.Received > r.Messages || len(r.Bytes) != 64*r.Messages {
				t.Fatalf("%d messages, %d received, %d bytes", r.Messages, r.Received, len(r.Bytes))
			}
			d.Release()
		}
	})
}
