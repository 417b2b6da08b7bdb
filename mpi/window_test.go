package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/mpi"
)

// windows runs a job of so many ranks with a window of count values of each.
func windows[T any](t *testing.T, provider string, ranks, count int,
	body func(ctx context.Context, w *mpi.World, win *mpi.Window[T]) error,
) {
	t.Helper()
	run(t, provider, ranks, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]T, count))
		if err != nil {
			return err
		}
		if err := body(ctx, w, win); err != nil {
			return err
		}
		return win.Free(ctx)
	})
}

// everywhere runs a test over all fabrics.
func everywhere(t *testing.T, body func(t *testing.T, provider string)) {
	for _, provider := range fabrics {
		t.Run(provider, func(t *testing.T) { body(t, provider) })
	}
}

// TestWindowPutGet: what each rank puts to all others is there after a fence, and what it gets is
// what is there, small and in many fragments.
func TestWindowPutGet(t *testing.T) {
	everywhere(t, func(t *testing.T, provider string) {
		for _, each := range []int{1, 1000, 300_000} {
			const ranks = 4
			windows(t, provider, ranks, ranks*each, func(ctx context.Context, w *mpi.World,
				win *mpi.Window[int32],
			) error {
				data := make([]int32, each)
				for i := range data {
					data[i] = int32(w.Rank()*each + i)
				}
				for to := range ranks {
					if err := win.Put(ctx, data, to, w.Rank()*each); err != nil {
						return err
					}
				}
				if err := win.Fence(ctx); err != nil {
					return err
				}
				for i, v := range win.Mem() {
					if v != int32(i) {
						return fmt.Errorf("value %d is %d", i, v)
					}
				}
				got := make([]int32, ranks*each)
				for from := range ranks {
					at := from * each
					if err := win.Get(ctx, got[at:at+each], (w.Rank()+from)%ranks, at); err != nil {
						return err
					}
				}
				if err := win.FlushAll(ctx); err != nil {
					return err
				}
				if !slices.Equal(got, win.Mem()) {
					return errors.New("what was got is not what was put")
				}
				return win.Fence(ctx)
			})
		}
	})
}

// TestWindowAccumulate: concurrent sums lose nothing, operations of one rank come in order, and
// large ones in pieces.
func TestWindowAccumulate(t *testing.T) {
	everywhere(t, func(t *testing.T, provider string) {
		const ranks, times, long = 4, 300, 3000
		windows(t, provider, ranks, ranks+long, func(ctx context.Context, w *mpi.World,
			win *mpi.Window[float64],
		) error {
			ones := make([]float64, long)
			for i := range ones {
				ones[i] = float64(i)
			}
			old := []float64{-1}
			for i := range times {
				if err := win.Accumulate(ctx, ones, 0, ranks, mpi.Sum[float64]()); err != nil {
					return err
				}
				mine := []float64{float64(i)}
				if err := win.GetAccumulate(ctx, mine, old, 0, w.Rank(), mpi.Replace[float64]()); err != nil {
					return err
				}
				if i%50 != 49 {
					continue
				}
				if err := win.Flush(ctx, 0); err != nil {
					return err
				}
				if old[0] != float64(i-1) {
					return fmt.Errorf("before value %d stood %v", i, old[0])
				}
			}
			if err := win.Fence(ctx); err != nil || w.Rank() != 0 {
				return err
			}
			for i, v := range win.Mem() {
				want := float64(times - 1)
				if i >= ranks {
					want = float64(ranks * times * (i - ranks))
				}
				if v != want {
					return fmt.Errorf("value %d is %v, want %v", i, v, want)
				}
			}
			return nil
		})
	})
}

// TestWindowOperations compares every operation with what it says.
func TestWindowOperations(t *testing.T) {
	ops := map[string]struct {
		op   mpi.Op[uint16]
		want uint16
	}{
		"sum": {mpi.Sum[uint16](), 0x1303}, "prod": {mpi.Prod[uint16](), 0x1302 & 0xffff},
		"min": {mpi.Min[uint16](), 1}, "max": {mpi.Max[uint16](), 0x1302},
		"and": {mpi.And[uint16](), 0}, "or": {mpi.Or[uint16](), 0x1303},
		"xor": {mpi.Xor[uint16](), 0x1303}, "replace": {mpi.Replace[uint16](), 1},
		"keep": {mpi.Keep[uint16](), 0x1302},
	}
	windows(t, "mem/local", 2, 1, func(ctx context.Context, w *mpi.World, win *mpi.Window[uint16],
	) error {
		for name, op := range ops {
			if w.Rank() == 0 { // to oneself, too
				for to := range 2 {
					_, err := win.FetchAndOp(ctx, 0x1302, to, 0, mpi.Replace[uint16]())
					if err != nil {
						return err
					}
					old, err := win.FetchAndOp(ctx, 1, to, 0, op.op)
					if err != nil || old != 0x1302 {
						return fmt.Errorf("%s: old is %#x, %w", name, old, err)
					}
					now, err := win.FetchAndOp(ctx, 0, to, 0, mpi.Keep[uint16]())
					if err != nil || now != op.want {
						return fmt.Errorf("%s: %#x, want %#x, %w", name, now, op.want, err)
					}
				}
			}
		}
		own := mpi.NewOp(func(a, b uint16) uint16 { return a }, true)
		for _, op := range []mpi.Op[uint16]{own, {}, mpi.Keep[uint16]()} {
			if err := win.Accumulate(ctx, []uint16{1}, 0, 0, op); !errors.Is(err, mpi.ErrConfig) {
				return fmt.Errorf("an operation that windows do not have: %w", err)
			}
		}
		return win.Fence(ctx)
	})
}

// TestWindowTickets: every ticket is drawn once, by FetchAndOp and by CompareAndSwap.
func TestWindowTickets(t *testing.T) {
	everywhere(t, func(t *testing.T, provider string) {
		const ranks, times = 4, 200
		windows(t, provider, ranks, 2, func(ctx context.Context, w *mpi.World,
			win *mpi.Window[int64],
		) error {
			drawn := make([]int64, ranks*times)
			for range times {
				ticket, err := win.FetchAndOp(ctx, 1, 1, 0, mpi.Sum[int64]())
				if err != nil {
					return err
				}
				drawn[ticket]++
				for guess := int64(0); ; {
					old, err := win.CompareAndSwap(ctx, guess, guess+1, 1, 1)
					if err != nil {
						return err
					}
					if old == guess {
						break
					}
					guess = old
				}
			}
			if err := mpi.Allreduce(ctx, &w.Comm, drawn, drawn, mpi.Sum[int64]()); err != nil {
				return err
			}
			if i := slices.IndexFunc(drawn, func(n int64) bool { return n != 1 }); i >= 0 {
				return fmt.Errorf("ticket %d was drawn %d times", i, drawn[i])
			}
			if w.Rank() == 1 && !slices.Equal(win.Mem(), []int64{ranks * times, ranks * times}) {
				return fmt.Errorf("the counters are %d", win.Mem())
			}
			return nil
		})
	})
}

// TestWindowLock: the holder of the exclusive lock reads and writes without interference. Shared
// locks are held together.
func TestWindowLock(t *testing.T) {
	everywhere(t, func(t *testing.T, provider string) {
		const ranks, times = 4, 50
		windows(t, provider, ranks, 2, func(ctx context.Context, w *mpi.World,
			win *mpi.Window[int64],
		) error {
			for i := range times {
				if err := win.Lock(ctx, 2, true); err != nil {
					return err
				}
				v := []int64{0}
				if err := win.Get(ctx, v, 2, 0); err != nil {
					return err
				}
				if err := win.Flush(ctx, 2); err != nil {
					return err
				}
				v[0]++
				if err := win.Put(ctx, v, 2, 0); err != nil {
					return err
				}
				if err := win.Unlock(ctx, 2); err != nil {
					return err
				}
				if i%10 != 0 {
					continue
				}
				// Nobody asks to be alone now. All share at once: nobody leaves before all have come.
				if err := mpi.Barrier(ctx, &w.Comm); err != nil {
					return err
				}
				if err := win.LockAll(ctx); err != nil {
					return err
				}
				if err := mpi.Barrier(ctx, &w.Comm); err != nil {
					return err
				}
				if err := win.UnlockAll(ctx); err != nil {
					return err
				}
			}
			if err := win.Fence(ctx); err != nil {
				return err
			}
			if got := win.Mem()[0]; w.Rank() == 2 && got != ranks*times {
				return fmt.Errorf("%d, want %d: the lock was not one", got, ranks*times)
			}
			return nil
		})
	})
}

// TestWindowErrors: wrong arguments are told at once, and nothing is left behind by a Lock whose
// context ends.
func TestWindowErrors(t *testing.T) {
	windows(t, "mem/local", 2, 10, func(ctx context.Context, w *mpi.World, win *mpi.Window[byte],
	) error {
		for _, c := range []struct {
			err  error
			want error
		}{
			{win.Put(ctx, make([]byte, 1), 2, 0), mpi.ErrRank},
			{win.Put(ctx, make([]byte, 1), -1, 0), mpi.ErrRank},
			{win.Put(ctx, make([]byte, 2), 1, 9), mpi.ErrBounds},
			{win.Get(ctx, make([]byte, 1), 1, -1), mpi.ErrBounds},
			{win.Get(ctx, make([]byte, 11), 0, 0), mpi.ErrBounds},
			{win.Accumulate(ctx, make([]byte, 11), 1, 0, mpi.Sum[byte]()), mpi.ErrBounds},
			{win.Put(ctx, nil, 1, 10), nil},
			{win.Unlock(ctx, 1), mpi.ErrInactive},
			{win.GetAccumulate(ctx, []byte{1}, nil, 1, 0, mpi.Sum[byte]()), mpi.ErrCount},
		} {
			if !errors.Is(c.err, c.want) {
				return fmt.Errorf("%w, want %w", c.err, c.want)
			}
		}
		if w.Rank() == 1 {
			if err := win.Lock(ctx, 1, true); err != nil {
				return err
			}
		}
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if w.Rank() == 0 {
			brief, cancel := context.WithTimeout(ctx, 10*time.Millisecond)
			defer cancel()
			if err := win.Lock(brief, 1, false); !errors.Is(err, context.DeadlineExceeded) {
				return fmt.Errorf("a lock that another one holds: %w", err)
			}
		}
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if w.Rank() == 1 {
			if err := win.Lock(ctx, 1, true); !errors.Is(err, mpi.ErrBusy) {
				return fmt.Errorf("a second lock: %w", err)
			}
			if err := win.Unlock(ctx, 1); err != nil {
				return err
			}
			return win.Lock(ctx, 1, true) // and nobody else has it
		}
		return nil
	})
}

// TestWindowLockOfTheDead: the lock of a dead rank, exclusive or shared, is given to a waiting
// rank. A rank that dies while it waits does not block other ranks.
func TestWindowLockOfTheDead(t *testing.T) {
	for name, alone := range map[string]bool{"alone": true, "shared": false} {
		t.Run(name, func(t *testing.T) { lockOfTheDead(t, alone) })
	}
}

// lockOfTheDead has rank 2 die while it holds the lock of rank 0, and rank 3 while it waits for it,
// or shares it.
func lockOfTheDead(t *testing.T, alone bool) {
	const holds, waits, size = 2, 3, 4
	cfg := mpi.Config{}
	cfg.Transport.PeerTimeout, cfg.Transport.KeepAlive = 300*time.Millisecond, 100*time.Millisecond
	runWith(t, cfg, "udp", size, func(ctx context.Context, w *mpi.World) error {
		ctx, cancel := context.WithTimeout(ctx, limit/4)
		defer cancel()
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]byte, 10))
		if err != nil {
			return err
		}
		if w.Rank() == holds {
			if err := win.Lock(ctx, 0, alone); err != nil {
				return err
			}
		}
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == waits {
			if err := win.AskForLock(ctx, 0, 1); err != nil {
				return err
			}
		}
		if w.Rank() >= holds {
			w.Kill()
			return nil
		}
		if err := win.Lock(ctx, 0, true); err != nil {
			return fmt.Errorf("the lock of the dead: %w", err)
		}
		if err := win.Unlock(ctx, 0); err != nil {
			return err
		}
		if err := operationsWithDead(ctx, win, holds); err != nil {
			return err
		}
		other := 1 - w.Rank()
		_, err = mpi.Sendrecv(ctx, &w.Comm, []byte{0}, other, 2, make([]byte, 1), other, 2)
		if err != nil {
			return err
		}
		// The lock may have been given to who waited for it before it was known to be gone.
		if err := w.Finalize(ctx); err != nil && dead(err, waits) != nil {
			return fmt.Errorf("at the end: %w", err)
		}
		return nil
	})
}

// operationsWithDead says which operation does not tell that a rank is gone.
func operationsWithDead(ctx context.Context, win *mpi.Window[byte], rank int) error {
	sum := mpi.Sum[byte]()
	for i, f := range []func() error{
		func() error { return errors.Join(win.Put(ctx, []byte{1}, rank, 0), win.Flush(ctx, rank)) },
		func() error { return errors.Join(win.Get(ctx, []byte{1}, rank, 0), win.Flush(ctx, rank)) },
		func() error {
			return errors.Join(win.Accumulate(ctx, []byte{1}, rank, 0, sum), win.Flush(ctx, rank))
		},
		func() error { return win.Lock(ctx, rank, true) },
		func() error { _, err := win.CompareAndSwap(ctx, 0, 1, rank, 0); return err },
	} {
		if err := dead(f(), rank); err != nil {
			return fmt.Errorf("operation %d with the dead: %w", i, err)
		}
	}
	return nil
}

// TestWindowNoMemory: some ranks may give nothing.
func TestWindowNoMemory(t *testing.T) {
	run(t, "mem/local", 3, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]float32, w.Rank()))
		if err != nil {
			return err
		}
		if win.Len(0) != 0 || win.Len(2) != 2 || win.Len(3) != 0 {
			return fmt.Errorf("lengths %d, %d, %d", win.Len(0), win.Len(2), win.Len(3))
		}
		if err := win.Put(ctx, []float32{1}, 0, 0); !errors.Is(err, mpi.ErrBounds) {
			return fmt.Errorf("a put where there is nothing: %w", err)
		}
		if err := win.Free(ctx); err != nil {
			return err
		}
		if err := win.Put(ctx, []float32{1}, 2, 0); !errors.Is(err, mpi.ErrFinalized) {
			return fmt.Errorf("a put after Free: %w", err)
		}
		return nil
	})
}

// TestWindowFlushesAtOnce: Flushes at the same time count what is carried out once.
func TestWindowFlushesAtOnce(t *testing.T) {
	windows(t, "mem/local", 2, 1, func(ctx context.Context, w *mpi.World, win *mpi.Window[int64],
	) error {
		if w.Rank() == 1 {
			return win.Fence(ctx)
		}
		for range 50 {
			if err := win.Accumulate(ctx, []int64{1}, 1, 0, mpi.Sum[int64]()); err != nil {
				return err
			}
			errs := make(chan error, 4)
			for range cap(errs) {
				go func() { errs <- win.Flush(ctx, 1) }()
			}
			for range cap(errs) {
				if err := <-errs; err != nil {
					return err
				}
			}
			if n := win.Unflushed(1); n != 0 {
				return fmt.Errorf("%d accumulates are not carried out after four Flushes", n)
			}
		}
		return win.Fence(ctx)
	})
}

// TestWindowsFreed: a window that was freed leaves no communicator behind.
func TestWindowsFreed(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		before := w.Communicators()
		for range 20 {
			win, err := mpi.NewWindow(ctx, &w.Comm, make([]byte, 8))
			if err != nil {
				return err
			}
			if err := win.Free(ctx); err != nil {
				return err
			}
		}
		if now := w.Communicators(); now != before {
			return fmt.Errorf("%d communicators, %d before", now, before)
		}
		return nil
	})
}

// TestWindowFlushHastens: a Flush of puts does not wait until the rank acknowledges them unasked.
func TestWindowFlushHastens(t *testing.T) {
	const times = 40
	var cfg mpi.Config
	cfg.Transport.Rules.AckDelay = 10 * time.Millisecond
	cfg.Transport.Rules.ResendTimeout = 200 * time.Millisecond
	runWith(t, cfg, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, times))
		if err != nil {
			return err
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		before := w.LoneAcks()
		for i := range times {
			if w.Rank() == 1 {
				break
			}
			if err := errors.Join(win.Put(ctx, []int64{int64(i)}, 1, i), win.Flush(ctx, 1)); err != nil {
				return err
			}
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		if n := w.LoneAcks() - before; w.Rank() == 1 && n > times/2 {
			return fmt.Errorf("%d ACKs for %d Flushes went alone", n, times)
		}
		for i, v := range win.Mem() {
			if w.Rank() == 1 && v != int64(i) {
				return fmt.Errorf("value %d is %d", i, v)
			}
		}
		return errors.Join(win.Free(ctx), w.Finalize(ctx))
	})
}

// TestWindowsLeaveRegions: however many windows there are, a message that is announced has a region
// to come into.
func TestWindowsLeaveRegions(t *testing.T) {
	var cfg mpi.Config
	cfg.Transport.RegionsMax = 4
	runWith(t, cfg, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		windows := []*mpi.Window[byte]{}
		var err error
		for err == nil {
			var win *mpi.Window[byte]
			if win, err = mpi.NewWindow(ctx, &w.Comm, make([]byte, 8)); err == nil {
				windows = append(windows, win)
			}
		}
		if !errors.Is(err, btl.ErrAgain) || len(windows) != 3 {
			return fmt.Errorf("%d windows, then %w", len(windows), err)
		}
		data := make([]byte, 1<<20)
		if w.Rank() == 0 {
			err = mpi.Send(ctx, &w.Comm, data, 1, 1)
		} else {
			_, err = mpi.Recv(ctx, &w.Comm, data, 0, 1)
		}
		for _, win := range windows {
			err = errors.Join(err, win.Free(ctx))
		}
		win, again := mpi.NewWindow(ctx, &w.Comm, make([]byte, 8)) // There is room again.
		if err = errors.Join(err, again); err != nil {
			return err
		}
		return errors.Join(win.Free(ctx), w.Finalize(ctx))
	})
}
