package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// holed has bytes that are no field's.
type holed struct {
	A int8
	B int64
}

// filled has none; tailed has some behind its fields.
type (
	filled struct {
		A    int32
		B, C uint16
		D    [2]float32
	}
	tailed struct {
		A int64
		B [3]int16
	}
	blank struct {
		A int32
		_ int32
	}
)

// Values whose bytes are not all those of fields cannot be compared bit by bit.
func TestCompareAndSwapOfStructs(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		err := errors.Join(swaps(ctx, &w.Comm, holed{1, 2}, holed{3, 4}, mpi.ErrType),
			swaps(ctx, &w.Comm, [2]tailed{}, [2]tailed{{A: 1}}, mpi.ErrType),
			swaps(ctx, &w.Comm, blank{A: 1}, blank{A: 2}, mpi.ErrType))
		return errors.Join(err, swaps(ctx, &w.Comm, filled{1, 2, 3, [2]float32{4, 5}}, filled{}, nil))
	})
}

// swaps has rank 0 swap a value of rank 1.
func swaps[T comparable](ctx context.Context, c *mpi.Comm, old, value T, want error) error {
	win, err := mpi.NewWindow(ctx, c, []T{old, old})
	if err != nil {
		return err
	}
	if c.Rank() == 0 {
		was, err := win.CompareAndSwap(ctx, old, value, 1, 1)
		if !errors.Is(err, want) || err == nil && was != old {
			return fmt.Errorf("%T: %v, %w", old, was, err)
		}
	}
	if err := win.Fence(ctx); err != nil {
		return err
	}
	if now := win.Mem()[1]; c.Rank() == 1 && want == nil && now != value {
		return fmt.Errorf("%v was not swapped", now)
	}
	return win.Free(ctx)
}

// Window operations with NoRank do nothing.
func TestWindowOfNobody(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, []int64{5, 5})
		if err != nil {
			return err
		}
		x, sum := []int64{7, 7, 7}, mpi.Sum[int64]()
		layout, err := mpi.Strided(x, 2, 1, 2)
		if err != nil {
			return err
		}
		ticket, err := win.FetchAndOp(ctx, 1, mpi.NoRank, 9, sum)
		was, failed := win.CompareAndSwap(ctx, 5, 6, mpi.NoRank, 0)
		err = errors.Join(err, failed, win.Put(ctx, x, mpi.NoRank, 0),
			win.Get(ctx, x, mpi.NoRank, 0), win.Accumulate(ctx, x, mpi.NoRank, 0, sum),
			win.GetAccumulate(ctx, x, x, mpi.NoRank, 0, sum), layout.Put(ctx, win, mpi.NoRank, 0),
			layout.Accumulate(ctx, win, mpi.NoRank, 0, sum), win.FlushAll(ctx), win.Fence(ctx))
		if err != nil || ticket != 0 || was != 0 || x[0] != 7 || win.Mem()[0] != 5 {
			return fmt.Errorf("%d, %d, %v, %v, %w", ticket, was, x, win.Mem(), err)
		}
		// An atomic Get needs no values to combine.
		err = win.GetAccumulate(ctx, nil, x[:2], 1-w.Rank(), 0, mpi.Keep[int64]())
		if err = errors.Join(err, win.Fence(ctx)); err != nil || x[1] != 5 {
			return fmt.Errorf("kept %v, %w", x, err)
		}
		if err := win.Free(ctx); err != nil {
			return err
		}
		if err := win.Put(ctx, x, mpi.NoRank, 0); !errors.Is(err, mpi.ErrFinalized) {
			return fmt.Errorf("freed: %w", err)
		}
		return nil
	})
}

// A Sendrecv that is refused has received nothing, nor has one to a rank that is gone; a poll for a
// message of a rank that is gone says so.
func TestSendrecvRefused(t *testing.T) {
	const dying = 2
	runWith(t, soon(), "udp", 3, func(ctx context.Context, w *mpi.World) error {
		c := &w.Comm
		if err := errors.Join(mpi.Barrier(ctx, c), w.Job().Fence(ctx)); err != nil {
			return err
		}
		switch w.Rank() {
		case dying:
			w.Kill()
			return nil
		case 1:
			if err := mpi.Send(ctx, c, []int32{77}, 0, 5); err != nil {
				return err
			}
		case 0:
			if _, err := mpi.Probe(ctx, c, 1, 5); err != nil { // so it is there
				return err
			}
			room := []int32{0}
			_, rank := mpi.Sendrecv(ctx, c, []int32{1}, 99, 0, room, 1, 5)
			_, tag := mpi.Sendrecv(ctx, c, []int32{1}, 1, mpi.TagMax+1, room, 1, 5)
			if !errors.Is(rank, mpi.ErrRank) || !errors.Is(tag, mpi.ErrTag) || room[0] != 0 {
				return fmt.Errorf("%w, %w, %v", rank, tag, room)
			}
			if err := polled(ctx, c, dying); err != nil {
				return err
			}
			_, err := mpi.Sendrecv(ctx, c, []int32{1}, dying, 0, room, 1, 5)
			if err := dead(err, dying); err != nil || room[0] != 0 {
				return fmt.Errorf("%v, %w", room, err)
			}
			s, err := mpi.Recv(ctx, c, room, 1, 5)
			if err != nil || s.Source != 1 || room[0] != 77 {
				return fmt.Errorf("%+v, %v, %w", s, room, err)
			}
		}
		if err := w.Finalize(ctx); err != nil { // of what the dying one had not acknowledged
			return dead(err, dying)
		}
		return nil
	})
}

// polled polls for messages of a rank that dies until it is said to be gone.
func polled(ctx context.Context, c *mpi.Comm, rank int) error {
	var err error
	for err == nil && ctx.Err() == nil {
		_, _, err = mpi.Iprobe(c, rank, mpi.AnyTag)
	}
	if err := dead(err, rank); err != nil {
		return err
	}
	_, _, err = mpi.Improbe(c, rank, 3)
	if err := dead(err, rank); err != nil {
		return err
	}
	ok, s, err := mpi.Iprobe(c, mpi.NoRank, 4) // Nobody does not die.
	if want := (mpi.Status{Source: mpi.NoRank, Tag: mpi.AnyTag}); err != nil || !ok || s != want {
		return fmt.Errorf("of nobody: %v, %+v, %w", ok, s, err)
	}
	return nil
}
