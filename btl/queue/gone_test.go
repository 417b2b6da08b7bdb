package queue_test

import (
	"context"
	"errors"
	"testing"

	"gobtl/btl"
	"gobtl/btl/queue"
	"gobtl/fabric/mem"
)

// A peer that leaves a message and goes, again and again, takes no more memory than GoneBytes, and
// takes nothing of what another one has left.
func TestQueueLeavesAgain(t *testing.T) {
	const most = 64 << 10
	for _, c := range []struct {
		name  string
		bytes int
	}{{"empty", 0}, {"large", 8 << 10}} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			net := mem.New(mem.Config{})
			receiver := open(t, net, queue.Config{GoneBytes: most})
			good, bad := open(t, net, queue.Config{}), open(t, net, queue.Config{})
			leave := func(s *side, count int, data []byte) {
				ep := s.connect(t, receiver)
				for range count {
					if err := s.Send(t.Context(), ep, data); err != nil {
						t.Fatal(err)
					}
				}
				if err := s.run.Flush(t.Context(), ep); err != nil {
					t.Fatal(err)
				}
				err := s.run.Do(t.Context(), func(*btl.Module) error { ep.Abort(); return nil })
				if err != nil {
					t.Fatal(err)
				}
			}
			leave(good, 3, []byte("good"))
			eventually(t, "the good peer to be gone", func() bool {
				_, bytes, _ := receiver.Held("")
				return bytes > 0
			})
			const rounds = 100
			for range rounds {
				leave(bad, 1, make([]byte, c.bytes))
			}
			eventually(t, "the bad peer to be gone", func() bool { return receiver.Senders() == 0 })
			_, bytes, ready := receiver.Held("")
			if bytes > most || ready > most/4096 {
				t.Errorf("%d bytes are kept, at most %d, in %d places", bytes, most, ready)
			}
			goods := 0
			for range ready + 2 {
				ctx, cancel := context.WithCancel(t.Context())
				cancel()
				msg, err := receiver.Take(ctx, nil)
				if err != nil {
					break
				}
				if string(msg.Data) == "good" {
					goods++
				}
			}
			if goods != 3 {
				t.Errorf("%d messages of the good peer are left of 3", goods)
			}
			if _, bytes, ready := receiver.Held(""); bytes != 0 || ready != 0 {
				t.Errorf("when all is taken %d bytes are kept, in %d places", bytes, ready)
			}
		})
	}
}

// A message that no queue of the receiver could hold is refused before there is memory for it; its
// sender is told, and lives.
func TestQueueTooLong(t *testing.T) {
	net := mem.New(mem.Config{})
	receiver, bad := open(t, net, queue.Config{Bytes: 64 << 10}), open(t, net, queue.Config{})
	ep := bad.connect(t, receiver)
	err := bad.run.Send(t.Context(), ep, tag, make([]byte, 1<<20))
	if err == nil {
		err = bad.run.Flush(t.Context(), ep)
	}
	if !errors.Is(err, btl.ErrUnwanted) {
		t.Errorf("1 MiB for a queue of 64 KiB: %v, want %v", err, btl.ErrUnwanted)
	}
	if err := bad.Send(t.Context(), ep, make([]byte, 60<<10)); err != nil {
		t.Error(err)
	}
}
