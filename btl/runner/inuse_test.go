package runner

import (
	"context"
	"errors"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/fabric/mem"
)

// Who is told that memory is still in use learns when that is over: when the message has its end
// late, and when its Runner has.
func TestInUseEnds(t *testing.T) {
	b := &bench{tb: t, net: mem.New(mem.Config{})}
	var rs []*Runner
	for range 2 {
		m := b.open(btl.Config{})
		mustHandleTag(t, m, 3, func(*btl.Endpoint, btl.Tag, []byte) {})
		r := New(m, Config{}, nil)
		t.Cleanup(func() { _ = r.Close(context.Background()) })
		rs = append(rs, r)
	}
	ep := connectTo(t, rs[0], rs[1])
	send := func() *InUse {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Millisecond)
		defer cancel()
		err := rs[0].Send(ctx, ep, 3, make([]byte, 1<<18))
		var use *InUse
		if !errors.As(err, &use) || !errors.Is(err, ErrInUse) ||
			!errors.Is(err, context.DeadlineExceeded) {
			t.Fatalf("while nothing arrives: %v", err)
		}
		select {
		case <-use.Free():
			t.Fatal("memory is free that is in use")
		default:
		}
		return use
	}
	b.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	first := send()
	b.net.SetFilter(nil)
	<-first.Free()
	b.net.SetFilter(func(_, _ []byte, _ []byte) mem.Verdict { return mem.Drop })
	last := send()
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_ = rs[0].Close(ctx)
	<-last.Free()
}
