package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/mpi"
)

// In a communicator that was freed nothing begins, persistent requests among it; others go on.
func TestFreed(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		c, err := w.Dup(ctx)
		if err != nil {
			return err
		}
		other := 1 - w.Rank()
		var send, recv, sum mpi.Request
		out, in := []int32{int32(w.Rank())}, []int32{7}
		err = errors.Join(
			mpi.SendInit(&send, c, out, other, 1), mpi.RecvInit(&recv, c, in, other, 1),
			mpi.AllreduceInit(&sum, c, out, in, mpi.Sum[int32]()),
			mpi.StartAll(&recv, &send), mpi.WaitAll(ctx, nil, &recv, &send),
			mpi.Barrier(ctx, &w.Comm),
		)
		if err != nil {
			return err
		}
		c.Free()
		for what, err := range map[string]error{
			"send": send.Start(), "receive": recv.Start(), "sum": sum.Start(),
			"barrier": mpi.Barrier(ctx, c), "Send": mpi.Send(ctx, c, out, other, 1),
		} {
			if !errors.Is(err, mpi.ErrFreed) {
				return fmt.Errorf("%s: %w", what, err)
			}
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}

// The memory of messages is not kept when their calls have returned.
func TestNothingKept(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		const size = 1 << 20
		var gone atomic.Int32
		if err := func() error {
			out, in := make([]byte, size), make([]byte, size)
			runtime.AddCleanup(&out[0], func(int) { gone.Add(1) }, 0)
			runtime.AddCleanup(&in[0], func(int) { gone.Add(1) }, 0)
			if w.Rank() == 0 {
				return errors.Join(mpi.Send(ctx, &w.Comm, out, 1, 1), mpi.Send(ctx, &w.Comm, in, 1, 1))
			}
			_, err1 := mpi.Recv(ctx, &w.Comm, in, 0, 1)
			_, err2 := mpi.Recv(ctx, &w.Comm, out, 0, 1)
			return errors.Join(err1, err2)
		}(); err != nil {
			return err
		}
		for began := time.Now(); gone.Load() < 2; runtime.GC() {
			if time.Since(began) > 10*time.Second {
				return fmt.Errorf("%d of 2 are gone", gone.Load())
			}
			time.Sleep(time.Millisecond)
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}

// Where a layout has more values than the root's that is an error, and what does not come stays as
// it is.
func TestLayoutBcastLonger(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		data := make([]int32, 12)
		for i := range data {
			data[i] = int32(100*w.Rank() + i)
		}
		l, err := mpi.Strided(data, 3+w.Rank(), 1, 3)
		if err != nil {
			return err
		}
		err = l.Bcast(ctx, &w.Comm, 0)
		if w.Rank() == 0 && err != nil || w.Rank() == 1 && !errors.Is(err, mpi.ErrCount) {
			return fmt.Errorf("unequal lengths: %w", err)
		}
		if w.Rank() == 1 {
			for i, want := range []int32{0, 101, 102, 3, 104, 105, 6, 107, 108, 109, 110, 111} {
				if data[i] != want {
					return fmt.Errorf("value %d is %d, want %d: %v", i, data[i], want, data)
				}
			}
		}
		return nil
	})
}

// A rank that has died before anybody was connected to it is known to be dead as soon as one that
// was connected to: who receives from it, or has it in a group, does not wait longer.
func TestDeadBeforeConnected(t *testing.T) {
	const victim = 2
	for name, operation := range map[string]func(context.Context, *mpi.World) error{
		"receive": func(ctx context.Context, w *mpi.World) error {
			_, err := mpi.Recv(ctx, &w.Comm, make([]byte, 1), victim, 1)
			return err
		},
		"group": func(ctx context.Context, w *mpi.World) error {
			all, err := w.Group().Incl(victim, 0, 1) // It is the first one from whom the others hear.
			if err == nil {
				_, err = w.CreateGroup(ctx, all, 5)
			}
			return err
		},
	} {
		t.Run(name, func(t *testing.T) {
			cfg := soon()
			runWith(t, cfg, "udp", 3, func(ctx context.Context, w *mpi.World) error {
				if w.Rank() == victim {
					w.Kill()
					return nil
				}
				time.Sleep(100 * time.Millisecond)
				ctx, cancel := context.WithTimeout(ctx, 10*cfg.Transport.PeerTimeout)
				defer cancel()
				err := operation(ctx, w)
				return dead(err, victim) // And not that the time is over.
			})
		})
	}
}
