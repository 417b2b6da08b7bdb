package stream

import (
	"errors"
	"testing"
	"time"

	"gobtl/fabric/sim"
)

// TestFullReceiver: on a network with a flow control for each receiver, a receiver that does not
// read delays no other receiver. The sender counts what it has dropped for the full receiver, which
// gets messages again when it reads again.
func TestFullReceiver(t *testing.T) {
	const total = 20_000
	for _, size := range []int{64, 1400} { // without and with completions of sends
		w := newSimWorldOf(t, sim.Config{Seed: 8, FreeRegions: true, Reliable: true}, 3)
		cfg := Config{
			Mode: Unreliable, Messages: total, BitsPerSecond: float64(size) * 8 * 5000, Receivers: 3,
		}
		full := w.open(cfg, Geometry{size, 4, 8}, 0)
		full.slow = 1 << 30
		good, last := full.join(w.rx[1], cfg, 78), full.join(w.rx[2], cfg, 79)
		w.until(time.Minute, func() bool { return good.got > total/2 })
		if full.got != 0 || full.tx.stats.FullDrops == 0 {
			t.Errorf("%d bytes: the full receiver has read %d messages, %d were dropped for it", size,
				full.got, full.tx.stats.FullDrops)
		}
		full.slow = 0
		w.until(time.Minute, full.ended)
		if err := errors.Join(full.tx.err, full.rx.err, good.rx.err, last.rx.err); err != nil {
			t.Fatal(err)
		}
		for _, s := range []*simStream{good, last} {
			if st := s.rx.Stats(); st.Received != total || s.wrong != 0 {
				t.Errorf("%d bytes: %d of %d messages beside a full receiver, %d wrong", size, st.Received,
					total, s.wrong)
			}
		}
		st, tx := full.rx.Stats(), full.tx.Stats()
		if full.wrong != 0 || st.Missing != tx.FullDrops || tx.Datagrams+tx.FullDrops != 3*total {
			t.Errorf("%d bytes: the full receiver %+v, %d wrong; the sender %+v", size, st, full.wrong, tx)
		}
		if st.Received < total/3 {
			t.Errorf("%d bytes: the full receiver got only %d messages, though it reads again", size,
				st.Received)
		}
		if c := full.tx.cast; len(c.port.txBuf) != txBuffers {
			t.Errorf("%d bytes: %d of %d buffers came back", size, len(c.port.txBuf), txBuffers)
		}
	}
}

// TestOnlyReceiverFull: the sender drops nothing for its only receiver, and the full receiver does
// not delay a receiver that joins.
func TestOnlyReceiverFull(t *testing.T) {
	const total = 20_000
	w := newSimWorldOf(t, sim.Config{Seed: 9, FreeRegions: true, Reliable: true}, 2)
	cfg := Config{Mode: Unreliable, Messages: total, BitsPerSecond: 64 * 8 * 20_000}
	full := w.open(cfg, Geometry{64, 4, 8}, 0)
	full.slow = 1 << 30
	w.until(time.Minute, func() bool {
		return len(full.tx.links) == 1 && full.tx.links[0].stuck > 2*stuckTries
	})
	if st := full.tx.stats; st.FullDrops != 0 || st.Sent > total/2 {
		t.Errorf("the only receiver does not read: %+v", st)
	}
	other := full.join(w.rx[1], cfg, 78)
	w.until(time.Minute, func() bool { return other.rx.state == stateDone })
	st := other.rx.Stats()
	if other.rx.err != nil || st.Received < total/2 || other.wrong != 0 {
		t.Errorf("the receiver that has joined: %v, %d wrong, %+v", other.rx.err, other.wrong, st)
	}
	if full.tx.stats.FullDrops == 0 {
		t.Error("nothing was dropped for the full receiver")
	}
}
