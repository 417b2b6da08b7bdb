package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// leave has a message left behind for who drives, as while a handler takes its time.
func leave(t *testing.T, r *Runner, ep *btl.Endpoint, tag btl.Tag, data []byte) (err error) {
	t.Helper()
	in, out, done := make(chan struct{}), make(chan struct{}), make(chan error)
	go func() {
		done <- r.Do(context.Background(), func(*btl.Module) error { close(in); <-out; return nil })
	}()
	<-in
	err = r.SendBuffered(t.Context(), ep, tag, data)
	close(out)
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	return err
}

// A message that was taken over and is lost before it is sent is told by the next Flush: its
// endpoint has ended, or never connects. One that can never be sent is not taken over.
func TestFlushTellsLost(t *testing.T) {
	rs, ep := pair(t, func(_ int, m *btl.Module) {
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
	})
	r := rs[0]
	if err := r.Do(t.Context(), func(*btl.Module) error { ep.Abort(); return nil }); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := leave(t, r, ep, 3, []byte("lost")); err != nil {
			t.Error(err)
		}
	}
	if err := r.Flush(t.Context(), ep); !errors.Is(err, btl.ErrClosed) {
		t.Errorf("its endpoint has ended: %v", err)
	}
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	gone := b.open(btl.Config{})
	name := gone.Name()
	if err := gone.Close(); err != nil {
		t.Fatal(err)
	}
	const most = 100_000
	cfg := btl.Config{HandshakeTimeout: 500 * time.Millisecond, FragmentBytesMax: most}
	r = openRunner(t, b.open(cfg))
	connect := func(m *btl.Module) (err error) { ep, err = m.Connect(m.Now(), name); return err }
	if err := r.Do(t.Context(), connect); err != nil {
		t.Fatal(err)
	}
	if err := leave(t, r, ep, 3, make([]byte, most+1)); !errors.Is(err, btl.ErrTooLarge) {
		t.Errorf("too large: %v", err)
	}
	if err := leave(t, r, ep, btl.TagMax+1, nil); !errors.Is(err, btl.ErrTag) {
		t.Errorf("a tag that there is not: %v", err)
	}
	if err := r.SendBuffered(t.Context(), ep, 3, []byte("lost")); err != nil {
		t.Fatal(err)
	}
	eventually(t, "the end", func() (over bool) {
		_ = r.Do(t.Context(), func(*btl.Module) error { over = ep.Err() != nil; return nil })
		return over
	})
	if err := r.Flush(t.Context(), ep); !errors.Is(err, btl.ErrUnreachable) {
		t.Errorf("never connected: %v", err)
	}
}
