package stream

import (
	"context"
	"errors"
	"testing"

	"gobtl/fabric"
	_ "gobtl/fabric/shm"
)

// TestFullReceiverSharedMemory: over shared memory, which holds sends to a full receiver, a
// receiver that never reads takes no message from another one.
func TestFullReceiverSharedMemory(t *testing.T) {
	infos, err := fabric.GetInfo(fabric.Hints{Provider: "shm"})
	if err != nil || len(infos) == 0 {
		t.Skipf("no shared memory: %v", err)
	}
	open := func() *Port {
		p, err := Open(infos[0], PortConfig{})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			_ = p.Close(ctx)
		})
		return p
	}
	const size, total, rate = 8192, 5000, 5000
	a, good, bad := open(), open(), open()
	cfg := Config{Mode: Unreliable, Messages: total, Timeout: 2 * patience}
	full, err := bad.Receive(newRing(t, size, 4, 8), cfg)
	if err != nil {
		t.Fatal(err)
	}
	rx, err := good.Receive(newRing(t, size, 4, 8), cfg)
	if err != nil {
		t.Fatal(err)
	}
	cfg.BitsPerSecond, cfg.Receivers, cfg.Unmonitored = 8*size*rate, 2, true
	tx, err := a.Send(newRing(t, size, 4, 8), cfg)
	if err != nil {
		t.Fatal(err)
	}
	if err := a.Connect(tx, full.Identity(), rx.Identity()); err != nil {
		t.Fatal(err)
	}
	go func() {
		for r := range rx.Completed() {
			rx.Release(r)
		}
	}()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	err = rx.Wait(ctx)
	if st := rx.Stats(); err != nil || st.Received != total {
		t.Errorf("%v; %d of %d messages came beside a receiver that never reads; the sender %+v", err,
			st.Received, total, tx.Stats())
	}
	if st := tx.Stats(); st.FullDrops == 0 || st.FullDrops >= total {
		t.Errorf("the sender has dropped %d of %d messages for the full receiver", st.FullDrops, total)
	}
	stop := errors.New("the test is over")
	_ = a.Abort(tx, stop)
	_ = good.AbortReceiver(rx, stop)
	_ = bad.AbortReceiver(full, stop)
}
