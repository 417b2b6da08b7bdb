package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"gobtl/btl"
	"gobtl/mpi"
)

// What one rank is refused has taken its turn there: the next operation is the same one for all
// ranks. The others wait for the one that was refused until their contexts end.
func TestRefusedTakesItsTurn(t *testing.T) {
	for name, test := range map[string]struct {
		wrong, right func(context.Context, *mpi.Comm) error
	}{
		"count": {
			func(ctx context.Context, c *mpi.Comm) error {
				return mpi.Allreduce(ctx, c, []int64{1}, nil, mpi.Sum[int64]())
			},
			func(ctx context.Context, c *mpi.Comm) error {
				return mpi.Allreduce(ctx, c, []int64{1}, []int64{0}, mpi.Sum[int64]())
			},
		},
		"root": {
			func(ctx context.Context, c *mpi.Comm) error { return mpi.Bcast(ctx, c, []int64{1}, 9) },
			func(ctx context.Context, c *mpi.Comm) error { return mpi.Bcast(ctx, c, []int64{1}, 0) },
		},
		"context": {
			func(_ context.Context, c *mpi.Comm) error {
				return mpi.Barrier(nil, c) //nolint:staticcheck // that is the point
			},
			mpi.Barrier,
		},
		"immediate": {
			func(_ context.Context, c *mpi.Comm) error {
				return mpi.Iallgather(new(mpi.Request), c, []int64{1}, nil)
			},
			func(ctx context.Context, c *mpi.Comm) error {
				var r mpi.Request
				err := mpi.Iallgather(&r, c, []int64{1}, make([]int64, c.Size()))
				if err == nil {
					_, err = r.Wait(ctx)
				}
				return err
			},
		},
		"grid": {
			func(ctx context.Context, c *mpi.Comm) error {
				return second(mpi.NewCart(ctx, c, []int{99}, []bool{false}))
			},
			func(ctx context.Context, c *mpi.Comm) error {
				return second(mpi.NewCart(ctx, c, []int{c.Size()}, []bool{false}))
			},
		},
		"window": {
			func(ctx context.Context, c *mpi.Comm) error {
				return second(mpi.NewWindow(ctx, c, []string{""}))
			},
			func(ctx context.Context, c *mpi.Comm) error {
				return second(mpi.NewWindow(ctx, c, []int64{0}))
			},
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, "mem/local", 3, func(ctx context.Context, w *mpi.World) error {
				if w.Rank() == 0 {
					if err := test.wrong(ctx, &w.Comm); err == nil {
						return errors.New("it was not refused")
					}
				} else {
					short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
					_ = test.right(short, &w.Comm) // a Bcast's root is not the one that waits
					cancel()
				}
				return sumsOf(ctx, &w.Comm)
			})
		})
	}
}

// A call that consists of several collective operations uses up the turns of all of them at each
// rank, even if the context of one rank is nil or ends in the first of them.
func TestRefusedTakesAllTurns(t *testing.T) {
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, call := range map[string]func(context.Context, *mpi.Comm) error{
		"split": func(ctx context.Context, c *mpi.Comm) error {
			return second(c.Split(ctx, 0, 0))
		},
		"duplicate": func(ctx context.Context, c *mpi.Comm) error { return second(c.Dup(ctx)) },
		"create": func(ctx context.Context, c *mpi.Comm) error {
			return second(c.Create(ctx, c.Group()))
		},
		"grid": func(ctx context.Context, c *mpi.Comm) error {
			return second(mpi.NewCart(ctx, c, []int{c.Size()}, []bool{false}))
		},
		"window": func(ctx context.Context, c *mpi.Comm) error {
			return second(mpi.NewWindow(ctx, c, []int64{0}))
		},
	} {
		for kind, wrong := range map[string]context.Context{"nil": nil, "ended": ended} {
			t.Run(name+" "+kind, func(t *testing.T) {
				run(t, "mem/local", 3, func(ctx context.Context, w *mpi.World) error {
					if w.Rank() == 0 {
						if err := call(wrong, &w.Comm); err == nil {
							return errors.New("it was not refused")
						}
					}
					if err := w.Job().Fence(ctx); err != nil {
						return err
					}
					if w.Rank() != 0 {
						short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
						_ = call(short, &w.Comm)
						cancel()
					}
					return sumsOf(ctx, &w.Comm)
				})
			})
		}
	}
}

// sumsOf has the ranks add up values in several rounds.
func sumsOf(ctx context.Context, c *mpi.Comm) error {
	for round := range int64(3) {
		sum := []int64{0}
		err := mpi.Allreduce(ctx, c, []int64{round}, sum, mpi.Sum[int64]())
		if err != nil || sum[0] != int64(c.Size())*round {
			return fmt.Errorf("round %d: %v, %w", round, sum, err)
		}
	}
	return nil
}

// An Agree that is refused has taken its turn as well.
func TestRefusedAgree(t *testing.T) {
	run(t, "mem/local", 3, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 0 {
			if _, err := w.Agree(nil, 1); !errors.Is(err, mpi.ErrContext) { //nolint:staticcheck // so
				return err
			}
		} else {
			short, cancel := context.WithTimeout(ctx, 50*time.Millisecond)
			_, _ = w.Agree(short, 1)
			cancel()
		}
		if flags, err := w.Agree(ctx, 6); err != nil || flags != 6 {
			return fmt.Errorf("agreed on %b, %w", flags, err)
		}
		return nil
	})
}

// Persistent operations are those that were readied together, in whatever order each rank begins
// them, and whatever else it begins between them.
func TestPersistentOrder(t *testing.T) {
	const size = 4
	run(t, "udp", size, func(ctx context.Context, w *mpi.World) error {
		c, op := &w.Comm, mpi.Sum[int64]()
		var requests [3]mpi.Request
		var in, out [3][]int64
		if w.Rank() == 1 { // is refused what the others ready
			if err := mpi.BcastInit(&requests[0], c, []int64{0}, size); err == nil {
				return errors.New("it was not refused")
			}
		} else if err := mpi.BcastInit(&requests[0], c, []int64{0}, 0); err != nil {
			return err
		}
		for i := range requests {
			in[i], out[i] = make([]int64, 1), make([]int64, 1)
			if err := mpi.AllreduceInit(&requests[i], c, in[i], out[i], op); err != nil {
				return err
			}
		}
		for round := range int64(20) {
			for i := range requests {
				in[i][0] = 100*int64(i) + round
			}
			for i := range requests {
				at := (i + w.Rank()) % len(requests)
				if err := requests[at].Start(); err != nil {
					return err
				}
				if i == 1 {
					if err := mpi.Barrier(ctx, c); err != nil {
						return err
					}
				}
			}
			for i := range requests {
				_, err := requests[i].Wait(ctx)
				if want := size * in[i][0]; err != nil || out[i][0] != want {
					return fmt.Errorf("round %d, operation %d: %d, want %d, %w", round, i, out[i][0], want, err)
				}
			}
		}
		return nil
	})
}

// What is longer than any notice is refused at its first chunk, and its sender is told.
func TestLongNotice(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if w.Rank() == 0 {
			ended, err := w.LongNotice(ctx, 1, 1<<20)
			if err != nil {
				return err
			}
			if !errors.Is(ended, btl.ErrUnwanted) {
				return fmt.Errorf("ended with %w, want %w", ended, btl.ErrUnwanted)
			}
		}
		return mpi.Barrier(ctx, &w.Comm)
	})
}
