package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// soon has the dead be noticed soon.
func soon() mpi.Config {
	var cfg mpi.Config
	cfg.Transport.PeerTimeout = time.Second
	cfg.Transport.KeepAlive = 100 * time.Millisecond
	return cfg
}

// dead says that an error is about a rank of the world.
func dead(err error, rank int) error {
	var gone *mpi.RankError
	if !errors.As(err, &gone) || gone.Rank != rank {
		return fmt.Errorf("not that rank %d is gone: %w", rank, err)
	}
	return nil
}

// goOn has the ranks that are left agree on it, and has them work.
func goOn(ctx context.Context, c *mpi.Comm, left int) error {
	flags, err := c.Agree(ctx, 7<<c.Rank()|1)
	if err != nil || flags != 1 {
		return fmt.Errorf("agreed on %b, %w", flags, err)
	}
	rest, err := c.Shrink(ctx)
	if err != nil {
		return err
	}
	sum := make([]int64, 10_000)
	for i := range sum {
		sum[i] = 1
	}
	if err := mpi.Allreduce(ctx, rest, sum, sum, mpi.Sum[int64]()); err != nil {
		return fmt.Errorf("those that are left: %w", err)
	}
	if rest.Size() != left || sum[len(sum)-1] != int64(left) {
		return fmt.Errorf("%d ranks are left, and the sum is %d", rest.Size(), sum[0])
	}
	return nil
}

// Collective operations end at all ranks when one has died, even at ranks that wait for living
// ranks. The survivors agree on the surviving ranks, continue, and finalize.
func TestDeathEndsCollectives(t *testing.T) {
	const size, victim = 8, 2
	for name, operation := range map[string]func(context.Context, *mpi.Comm) error{
		"bcast": func(ctx context.Context, c *mpi.Comm) error {
			return mpi.Bcast(ctx, c, make([]byte, 100), victim)
		},
		// The messages are announced. Their receivers have given up by then.
		"large": func(ctx context.Context, c *mpi.Comm) error {
			values := make([]float64, 200_000)
			return mpi.Scan(ctx, c, values, values, mpi.Sum[float64]())
		},
	} {
		t.Run(name, func(t *testing.T) {
			runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
				if err := mpi.Barrier(ctx, &w.Comm); err != nil {
					return err
				}
				if err := w.Job().Fence(ctx); err != nil {
					return err
				}
				if w.Rank() == victim {
					w.Kill()
					return nil
				}
				// It may end well at ranks that need nothing of the victim.
				var err error
				for range 100 {
					if err = operation(ctx, &w.Comm); err != nil {
						break
					}
				}
				if err := dead(err, victim); err != nil {
					return err
				}
				if err := dead(mpi.Barrier(ctx, &w.Comm), victim); err != nil {
					return fmt.Errorf("what begins later: %w", err)
				}
				if failed := w.Failed(); !slices.Equal(failed, []int{victim}) {
					return fmt.Errorf("known to be gone: %v", failed)
				}
				return errors.Join(goOn(ctx, &w.Comm, size-1), w.Finalize(ctx))
			})
		})
	}
}

// In a job of more than 64 ranks, ranks forward the news of deaths and revocations. A rank without
// a connection to the dead rank also learns of its death. With the race detector, 70 ranks need a
// minute of CPU time, and 20 ranks are a large job.
func TestDeathInLargeJob(t *testing.T) {
	size := 70
	if testenv.Race {
		size = 20
	}
	victims := []int{0, size/2 - 2, size - 1}
	cfg := soon()
	cfg.Transport.PeerTimeout = 12 * time.Second // Not all of so many have the processor all the time.
	runWith(t, cfg, "udp", size, func(ctx context.Context, w *mpi.World) error {
		if testenv.Race {
			w.ForwardAbove(8)
		}
		err := errors.Join(mpi.Barrier(ctx, &w.Comm), w.Job().Fence(ctx))
		if err != nil {
			return err
		}
		if slices.Contains(victims, w.Rank()) {
			w.Kill()
			return nil
		}
		for _, victim := range victims {
			if err := notice(ctx, w, victim); err != nil {
				return err
			}
		}
		if w.Rank() == 1 {
			if err := w.Revoke(); err != nil {
				return err
			}
		}
		_, err = mpi.Recv(ctx, &w.Comm, make([]byte, 1), mpi.AnySource, 1)
		if !errors.Is(err, mpi.ErrRevoked) {
			return fmt.Errorf("of a communicator that rank 1 revokes: %w", err)
		}
		return errors.Join(goOn(ctx, &w.Comm, size-len(victims)), w.Finalize(ctx))
	})
}

// Revoke ends what waits at all ranks, and what was sent is dropped, so that sends end.
func TestRevoke(t *testing.T) {
	run(t, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		c, err := w.Dup(ctx)
		if err != nil {
			return err
		}
		data, large := make([]byte, 8), make([]byte, 1<<20)
		switch c.Rank() {
		case 0:
			_, err = mpi.Recv(ctx, c, data, 1, 1)
		case 1:
			_, err = mpi.Recv(ctx, c, data, mpi.AnySource, 2)
		case 2: // Nobody receives it; whether it ends well or not, it ends.
			for err == nil {
				err = mpi.Send(ctx, c, large, 3, 3)
			}
		case 3:
			if _, err := mpi.Probe(ctx, c, 2, 3); err != nil {
				return err
			}
			if err := c.Revoke(); err != nil {
				return err
			}
			_, err = mpi.Probe(ctx, c, 2, 3)
		}
		_, received := mpi.Recv(ctx, c, data, 0, 1)
		for i, err := range []error{err, received, mpi.Barrier(ctx, c), mpi.Send(ctx, c, data, 0, 1)} {
			if !errors.Is(err, mpi.ErrRevoked) {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		if err := goOn(ctx, c, 4); err != nil {
			return err
		}
		return mpi.Barrier(ctx, &w.Comm) // Others are not concerned.
	})
}

// Whoever dies while the ranks agree, and whenever, those that are left have the same decisions: of
// each round the flags of all that have voted, and no others. And those that die have had the same
// in their last round: the leader of that has not died in it.
func TestAgreeWhileRanksDie(t *testing.T) {
	const size, rounds = 5, 60
	random := rand.New(rand.NewPCG(testenv.Seed(t, rand.Uint64()), 1))
	dieAt := [size]int{}
	for i := range dieAt {
		dieAt[i] = rounds + 1
	}
	for _, rank := range []int{0, 1 + random.IntN(2), 3} {
		dieAt[rank] = 1 + random.IntN(rounds-1)
	}
	t.Logf("dying in rounds %v", dieAt)
	var decisions [size][]uint64
	runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
		me := w.Rank()
		for i := range rounds {
			if dieAt[me] == i {
				w.Kill()
				return nil
			}
			flags, err := w.Agree(ctx, ^(uint64(1) << (me + 8*(i%2))))
			if err != nil {
				return fmt.Errorf("round %d: %w", i, err)
			}
			decisions[me] = append(decisions[me], flags)
		}
		return w.Finalize(ctx)
	})
	for i := range rounds {
		for rank := range size {
			for other := range size {
				both := dieAt[rank] > i && dieAt[other] > i
				if both && decisions[rank][i] != decisions[other][i] {
					t.Fatalf("round %d: rank %d has %x, %d has %x", i, rank, decisions[rank][i], other,
						decisions[other][i])
				}
			}
			if voted := decisions[4][i]&(1<<(rank+8*(i%2))) == 0; voted != (dieAt[rank] > i) {
				t.Fatalf("round %d: %x, and rank %d has died in round %d", i, decisions[4][i], rank,
					dieAt[rank])
			}
		}
	}
}

// When the leader of a round has its decision, that is on its way to the others: from then on it
// may stand still.
func TestDecisionLeaves(t *testing.T) {
	const size, rounds = 3, 100
	var have [rounds]sync.WaitGroup
	for i := range have {
		have[i].Add(size - 1)
	}
	runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
		for i := range rounds {
			flags, err := w.Agree(ctx, ^(uint64(1) << w.Rank()))
			if want := ^uint64(1<<size - 1); err != nil || flags != want {
				return fmt.Errorf("round %d: flags %x, want %x: %w", i, flags, want, err)
			}
			if w.Rank() != 0 {
				have[i].Done()
				continue
			}
			all, release := make(chan struct{}), make(chan struct{})
			go func() { have[i].Wait(); close(all) }()
			go func() {
				defer close(release)
				select {
				case <-all:
				case <-time.After(10 * time.Second):
					t.Errorf("round %d: the others wait for a decision that there is", i)
				}
			}()
			w.Hold(release)
			if t.Failed() {
				return w.Finalize(ctx)
			}
		}
		return w.Finalize(ctx)
	})
}

// What the leader of a round has returned is what all others decide, also if it dies at once, and
// although it has had more to tell them in the same pass: that a rank is gone.
func TestDecisionOutlivesLeader(t *testing.T) {
	const size = 4
	want := ^uint64(1<<0 | 1<<2 | 1<<3)
	runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
		err := errors.Join(mpi.Barrier(ctx, &w.Comm), w.Job().Fence(ctx))
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			w.Kill()
			return nil
		}
		flags, err := w.Agree(ctx, ^(uint64(1) << w.Rank()))
		if err != nil || flags != want {
			return fmt.Errorf("agreed on %x, want %x: %w", flags, want, err)
		}
		if w.Rank() == 0 {
			w.Kill()
			return nil
		}
		if err := w.Finalize(ctx); err != nil { // What it was sent may be lost with it.
			return dead(err, 0)
		}
		return nil
	})
}

// When a leader dies after it has told its decision to one rank only, that one tells it on,
// although it has freed the communicator by then, or finalizes: be it the next leader, or another.
func TestLeaderDiesAmidDecision(t *testing.T) {
	for _, finalizes := range []bool{false, true} {
		for told := 1; told <= 2; told++ {
			t.Run(fmt.Sprintf("rank %d is told, finalizes %v", told, finalizes), func(t *testing.T) {
				t.Parallel()
				runWith(t, soon(), "udp", 3, func(ctx context.Context, w *mpi.World) error {
					return dieAmidDecision(ctx, w, told, finalizes)
				})
			})
		}
	}
}

// dieAmidDecision is what the ranks do in TestLeaderDiesAmidDecision.
func dieAmidDecision(ctx context.Context, w *mpi.World, told int, finalizes bool) error {
	c, err := w.Dup(ctx)
	if err != nil {
		return err
	}
	if finalizes {
		c = &w.Comm
	}
	if w.Rank() == 0 {
		if err := c.DecideFor(ctx, told, 42); err != nil {
			return err
		}
		w.Kill()
		if !finalizes {
			return nil
		}
		return w.Job().Fence(ctx) // The launcher has not seen it die.
	}
	if finalizes {
		return w.Finalize(ctx)
	}
	flags, err := c.Agree(ctx, 7)
	if w.Rank() == told {
		c.Free()
	}
	if err != nil || flags != 42 {
		return fmt.Errorf("agreed on %d, %w", flags, err)
	}
	if err := notice(ctx, w, 0); err != nil {
		return err
	}
	return w.Finalize(ctx)
}

// Finalize tells that what was sent to a rank has not arrived.
func TestFinalizeTellsOfLoss(t *testing.T) {
	runWith(t, soon(), "udp", 2, func(ctx context.Context, w *mpi.World) error {
		err := errors.Join(mpi.Barrier(ctx, &w.Comm), w.Job().Fence(ctx))
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			w.Kill()
			return w.Job().Fence(ctx)
		}
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		if err := mpi.Send(ctx, &w.Comm, []byte{1}, 1, 1); err != nil {
			return err
		}
		return dead(w.Finalize(ctx), 1)
	})
}

// A rank that dies after all have met in Finalize, and before it has come to the launcher's
// barrier: the others have its number, and do not wait.
func TestDeathInFinalize(t *testing.T) {
	runWith(t, soon(), "udp", 3, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 2 {
			_, err := w.Agree(ctx, ^uint64(0)) // as Finalize begins
			w.Kill()
			return err
		}
		return dead(w.Finalize(ctx), 2)
	})
}

// Communicators can be revoked however many were before, of which the last ones are known.
func TestManyRevoked(t *testing.T) {
	run(t, "mem/local", 1, func(ctx context.Context, w *mpi.World) error {
		for range 2 {
			w.RevokeOthers(mpi.RevokedMax)
			c, err := w.Dup(ctx)
			if err != nil {
				return err
			}
			if err := c.Revoke(); err != nil {
				return err
			}
			if err := mpi.Barrier(ctx, c); !errors.Is(err, mpi.ErrRevoked) {
				return fmt.Errorf("a barrier in a communicator that was revoked: %w", err)
			}
			if n := w.Revoked(); n > mpi.RevokedMax {
				return fmt.Errorf("%d communicators are kept", n)
			}
		}
		return nil
	})
}

// More dead ranks than one message names: votes and decisions go in parts.
func TestShrinkInParts(t *testing.T) {
	const size = 12
	victims := []int{0, 3, 4, 7, 11}
	for _, perPart := range []int{1, 3} {
		t.Run(fmt.Sprint(perPart), func(t *testing.T) {
			t.Parallel()
			runWith(t, soon(), "udp", size, func(ctx context.Context, w *mpi.World) error {
				w.SplitNotices(perPart)
				err := errors.Join(mpi.Barrier(ctx, &w.Comm), w.Job().Fence(ctx))
				if err != nil {
					return err
				}
				if slices.Contains(victims, w.Rank()) {
					w.Kill()
					return nil
				}
				for _, victim := range victims {
					if err := notice(ctx, w, victim); err != nil {
						return err
					}
				}
				err = goOn(ctx, &w.Comm, size-len(victims))
				for err == nil && w.Assemblies() > 0 { // Another rank may be amid one.
					time.Sleep(time.Millisecond)
					err = ctx.Err()
				}
				return errors.Join(err, w.Finalize(ctx))
			})
		})
	}
}
