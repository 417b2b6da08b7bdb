package mpi_test

import (
	"context"
	"encoding/binary"
	"flag"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/mpi"
	"gobtl/pml"
)

var floodMessages = flag.Int("mpi.flood", 20_000, "messages of TestUnexpected")

// floodTags is the number of tags among which the messages of a flood are shared. The others are
// the bounds that pml.Config has by default, and what each message counts beside its bytes.
const (
	floodTags      = 3
	floodMost      = 4096
	floodBytesMost = 1 << 20
	floodOverhead  = 64
)

// size is the size of a message of a flood: behind those that fill the room at the receiver,
// some are larger than what is sent before anybody has asked for it.
func (f *flood) size(i int) int {
	if i > 8000 && i%1000 == 0 {
		return 100_000
	}
	return 8 + i%97*f.step
}

// A rank that does not receive keeps no more than its bounds say, the one that sends waits, and all
// messages come in their order as soon as they are received.
func TestUnexpected(t *testing.T) {
	for _, provider := range fabrics {
		for _, step := range []int{0, 6} {
			t.Run(fmt.Sprintf("%s/%d", provider, step), func(t *testing.T) {
				f := &flood{messages: *floodMessages, step: step, meet: make(chan struct{})}
				run(t, provider, 2, func(ctx context.Context, w *mpi.World) error {
					if w.Rank() == 0 {
						return f.send(ctx, w)
					}
					return f.receive(ctx, w)
				})
				t.Logf("%d messages: the sender waited after %d; kept at most %d messages, %d bytes; "+
					"the heap grew by %d bytes", f.messages, f.waited, f.most, f.mostBytes, f.grown)
				if !f.met() {
					t.Error("the bounds were not met")
				}
			})
		}
	}
}

// flood is what the two ranks of TestUnexpected know of each other.
type flood struct {
	messages  int
	step      int // by which messages differ in size
	sent      atomic.Int64
	meet      chan struct{}
	waited    int64
	most      int // messages, and bytes, that were kept
	mostBytes int
	grown     int64
}

// met says whether one of the bounds was met.
func (f *flood) met() bool {
	return f.most >= floodMost || f.mostBytes+floodOverhead*f.most >= floodBytesMost*9/10
}

func (f *flood) send(ctx context.Context, w *mpi.World) error {
	<-f.meet
	data := make([]byte, 200_000)
	for i := range f.messages {
		binary.LittleEndian.PutUint64(data, uint64(i))
		if err := mpi.Send(ctx, &w.Comm, data[:f.size(i)], 1, i%floodTags); err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		f.sent.Add(1)
	}
	return nil
}

// bounded looks at what is kept.
func (f *flood) bounded(w *mpi.World) (pml.Stats, error) {
	s := w.LayerStats()
	f.most, f.mostBytes = max(f.most, s.UnexpectedMessages), max(f.mostBytes, s.UnexpectedBytes)
	if s.UnexpectedMessages > floodMost || s.UnexpectedBytes > floodBytesMost {
		return s, fmt.Errorf("%d messages, %d bytes are kept", s.UnexpectedMessages, s.UnexpectedBytes)
	}
	return s, nil
}

func (f *flood) receive(ctx context.Context, w *mpi.World) error {
	before := heap()
	close(f.meet)
	if err := f.stalled(ctx, w); err != nil {
		return err
	}
	f.waited, f.grown = f.sent.Load(), heap()-before
	if f.grown > 16<<20 {
		return fmt.Errorf("the heap has grown by %d bytes", f.grown)
	}
	data := make([]byte, 200_000)
	for i := range f.messages {
		status, err := mpi.Recv(ctx, &w.Comm, data, mpi.AnySource, mpi.AnyTag)
		if err != nil {
			return fmt.Errorf("message %d: %w", i, err)
		}
		if status != (mpi.Status{Source: 0, Tag: i % floodTags, Count: f.size(i)}) ||
			binary.LittleEndian.Uint64(data) != uint64(i) {
			return fmt.Errorf("message %d is %+v, number %d", i, status,
				binary.LittleEndian.Uint64(data))
		}
		if i%1000 == 0 {
			if _, err := f.bounded(w); err != nil {
				return err
			}
		}
	}
	if s := w.LayerStats(); s.UnexpectedBytes != 0 || s.UnexpectedMessages != 0 {
		return fmt.Errorf("after the last message: %+v", s)
	}
	return nil
}

// stalled waits until the sender has come to no further message for a while: for much longer if no
// bound is met, for it may not have had the processor.
func (f *flood) stalled(ctx context.Context, w *mpi.World) error {
	const looks, patience = 20, 4000 // without a change
	for last, same := int64(-1), 0; same < looks || !f.met() && same < patience; {
		if err := ctx.Err(); err != nil {
			return err
		}
		time.Sleep(5 * time.Millisecond)
		s, err := f.bounded(w)
		if err != nil {
			return err
		}
		now := f.sent.Load()
		if same++; now != last || s.UnexpectedMessages == 0 {
			last, same = now, 0
		}
		if now == int64(f.messages) {
			return fmt.Errorf("%d messages are sent, and nobody has received one", now)
		}
	}
	return nil
}

// heap is what the process has in use, in bytes.
func heap() int64 {
	var m runtime.MemStats
	runtime.GC()
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}
