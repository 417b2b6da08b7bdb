package runner

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// TestLongPasses: a handler that blocks for longer than the bound is counted and told at its side,
// and at no other.
func TestLongPasses(t *testing.T) {
	const bound, blocks = 20 * time.Millisecond, 30 * time.Millisecond
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	quick, slow := b.open(btl.Config{}), b.open(btl.Config{})
	if err := slow.Handle(1, func(*btl.Endpoint, btl.Tag, []byte) { time.Sleep(blocks) }); err != nil {
		t.Fatal(err)
	}
	var told atomic.Int64
	guilty := New(slow, Config{
		LongPass: bound, OnLongPass: func(took time.Duration) { told.Store(int64(took)) },
	}, nil)
	sender := New(quick, Config{LongPass: time.Hour}, nil)
	defer func() {
		for _, r := range []*Runner{sender, guilty} {
			if err := r.Close(context.Background()); err != nil {
				t.Error(err)
			}
		}
	}()
	ep, err := sender.Connect(t.Context(), slow.Name())
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := sender.Send(t.Context(), ep, 1, nil); err != nil {
			t.Fatal(err)
		}
	}
	count, longest := guilty.LongPasses()
	if count < 1 || longest < blocks || told.Load() < int64(blocks) {
		t.Errorf("%d long passes, of up to %v; told was %v", count, longest,
			time.Duration(told.Load()))
	}
	if count, longest := sender.LongPasses(); count != 0 || longest != 0 {
		t.Errorf("the sender has %d long passes, of up to %v", count, longest)
	}
}
