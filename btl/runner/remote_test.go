package runner

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"sync"
	"testing"

	"gobtl/btl"
	"gobtl/internal/testenv"
)

// Many goroutines put, read and count in the memory of one peer.
func TestRunnerRemote(t *testing.T) {
	const workers, each, size = 8, 40, 3000
	mem := make([]byte, workers*size+8)
	notices := make(chan string, workers*each)
	rs, ep := pair(t, func(i int, m *btl.Module) {
		mustHandleTag(t, m, 5, func(_ *btl.Endpoint, _ btl.Tag, data []byte) { notices <- string(data) })
	})
	ctx := t.Context()
	var handle btl.Handle
	if err := rs[1].Do(ctx, func(m *btl.Module) error {
		r, err := m.Expose(mem, btl.RemoteAll)
		if err == nil {
			handle = r.Handle()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	olds := make([][]uint64, workers)
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			into := make([]byte, size)
			for i := range each {
				data := filled(size, byte(w*each+i))
				at := uint64(w * size)
				if err := rs[0].PutNotice(ctx, ep, data, handle, at, 5, []byte("put")); err != nil {
					t.Error(err)
				}
				if err := rs[0].Get(ctx, ep, into, handle, at); err != nil || !bytes.Equal(into, data) {
					t.Errorf("what was read is not what was put, or %v", err)
				}
				old, err := rs[0].Atomic(ctx, ep, btl.Atomic{
					Target: handle, Offset: workers * size, Action: btl.ActionAdd, WidthBytes: 8, Operand: 1,
					Fetch: true,
				})
				if err != nil {
					t.Error(err)
				}
				olds[w] = append(olds[w], old)
			}
		})
	}
	wg.Wait()
	seen := map[uint64]bool{}
	for _, list := range olds {
		for _, old := range list {
			seen[old] = true
		}
	}
	if len(notices) != workers*each || len(seen) != workers*each {
		t.Errorf("%d notices, %d different numbers, want %d", len(notices), len(seen), workers*each)
	}
	if err := rs[1].Do(ctx, func(*btl.Module) error {
		if v := binary.NativeEndian.Uint64(mem[workers*size:]); v != workers*each {
			t.Errorf("%d adds have made %d", workers*each, v)
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	var why *btl.AccessError
	if err := rs[0].Get(ctx, ep, make([]byte, 8), handle, 1<<40); !errors.As(err, &why) ||
		why.Reason != btl.ReasonBounds {
		t.Errorf("outside of the region: %v", err)
	}
}

// TestRunnerRemoteAllocs: operations on memory of a peer allocate nothing.
func TestRunnerRemoteAllocs(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	mem := make([]byte, 64)
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 5, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	ctx := context.Background() // a sleep of a call whose context can end allocates
	var handle btl.Handle
	if err := rs[1].Do(ctx, func(m *btl.Module) error {
		r, err := m.Expose(mem, btl.RemoteAll)
		if err == nil {
			handle = r.Handle()
		}
		return err
	}); err != nil {
		t.Fatal(err)
	}
	data, says := make([]byte, 8), []byte("put")
	add := btl.Atomic{Target: handle, Action: btl.ActionAdd, WidthBytes: 8, Operand: 1, Fetch: true}
	for name, op := range map[string]func() error{
		"put":    func() error { return rs[0].Put(ctx, ep, data, handle, 0) },
		"notice": func() error { return rs[0].PutNotice(ctx, ep, data, handle, 0, 5, says) },
		"get":    func() error { return rs[0].Get(ctx, ep, data, handle, 0) },
		"atomic": func() error { _, err := rs[0].Atomic(ctx, ep, add); return err },
	} {
		if n := testing.AllocsPerRun(300, func() {
			if err := op(); err != nil {
				t.Fatal(err)
			}
		}); n >= 1 {
			t.Errorf("%s: %.1f allocations", name, n)
		}
	}
}
