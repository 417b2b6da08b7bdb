package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"gobtl/mpi"
)

// One rank that votes in rounds of communicators that nobody has does not keep others' votes out:
// those that come to who leads a round before it has the communicator among them.
func TestLiarVotesKeepOthersOut(t *testing.T) {
	const liar = 2
	run(t, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == liar {
			if err := w.Vote(ctx, 0, 1<<16+100, 0); err != nil {
				return err
			}
		}
		c := &w.Comm
		for round := range 20 {
			var err error
			if err = mpi.Barrier(ctx, c); err == nil {
				c, err = c.Shrink(ctx)
			}
			short, cancel := context.WithTimeout(ctx, 20*time.Second)
			for range 3 {
				if err == nil {
					_, err = c.Agree(short, 1)
				}
			}
			cancel()
			if err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
}

// Votes that list numbers as dead that no rank of the communicator has do not make the decision
// longer than other ranks accept.
func TestLiarVotesForNumbers(t *testing.T) {
	const size = 4
	run(t, "udp", size, func(ctx context.Context, w *mpi.World) error {
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if liar := w.Rank(); liar >= 2 {
			numbers := make([]int, size)
			for i := range numbers {
				numbers[i] = 100*liar + i
			}
			if err := w.VoteDead(ctx, w, 0, 0, numbers); err != nil {
				return err
			}
		}
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		var err error
		if w.Rank() < 2 {
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			_, err = w.Agree(short, 1)
			cancel()
		} else { // uses up the number of the round
			_, err = w.Agree(nil, 1) //nolint:staticcheck // that is the point
			if errors.Is(err, mpi.ErrContext) {
				err = nil
			}
		}
		return errors.Join(err, w.Job().Fence(ctx))
	})
}

// A decision in a communicator that is still to be made is none, of who will have it or not.
func TestLiarDecidesForOthers(t *testing.T) {
	const liar = 2
	for name, colour := range map[string]int{"stranger": mpi.NoColour, "member": 0} {
		t.Run(name, func(t *testing.T) {
			run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
				if w.Rank() == liar {
					if err := errors.Join(w.Decide(ctx, 0, 0), w.Decide(ctx, 0, 1)); err != nil {
						return err
					}
				}
				if err := mpi.Barrier(ctx, &w.Comm); err != nil {
					return err
				}
				mine := 0
				if w.Rank() == liar {
					mine = colour
				}
				c, err := w.Split(ctx, mine, 0)
				if err != nil || c == nil {
					return err
				}
				flags, err := c.Agree(ctx, 3)
				if err == nil && flags != 3 {
					err = fmt.Errorf("who has nothing to decide has decided %x", flags)
				}
				return err
			})
		})
	}
}

// A rank that says of very many communicators that they are revoked, and votes very often in a
// round that is over, does not have letters to a rank that stands still pile up.
func TestLiarLettersPileUp(t *testing.T) {
	release := make(chan struct{})
	var held sync.WaitGroup
	held.Add(1)
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		_, err := w.Agree(ctx, 1)
		if err = errors.Join(err, mpi.Barrier(ctx, &w.Comm), w.Job().Fence(ctx)); err != nil {
			return err
		}
		switch w.Rank() {
		case 0:
			err = w.Job().Fence(ctx)
			if n := w.Letters(); n > 10 {
				err = errors.Join(err, fmt.Errorf("%d letters wait", n))
			}
			close(release)
			return err
		case 1:
			held.Wait()
			err = errors.Join(w.RevokeAt(ctx, 0, 100_000), w.VoteAgain(ctx, w, 0, 10_000, 0))
			return errors.Join(err, w.Job().Fence(ctx))
		}
		fenced := make(chan error)
		go func() { fenced <- w.Job().Fence(ctx) }()
		go func() { time.Sleep(50 * time.Millisecond); held.Done() }()
		w.Hold(release)
		return <-fenced
	})
}

// A rank that asks a window for values and never receives them does not delay other ranks. Neither
// does a rank that announces requests and never sends their data. The requests of one rank occupy
// few receive buffers.
func TestLiarHoldsPlaces(t *testing.T) {
	const liar, buffersMost = 2, 4
	for _, kind := range []string{"answers", "announced"} {
		t.Run(kind, func(t *testing.T) {
			release := make(chan struct{})
			var owner atomic.Pointer[mpi.Window[int64]]
			cfg := mpi.Config{}
			if kind == "announced" {
				cfg.Layer.EagerBytes = -1
			}
			runWith(t, cfg, "udp", 3, func(ctx context.Context, w *mpi.World) error {
				win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 512))
				if err == nil {
					err = mpi.Barrier(ctx, &w.Comm)
				}
				if err != nil {
					return err
				}
				met := make(chan error, 1)
				fence := func() { met <- w.Job().Fence(ctx) }
				if w.Rank() == liar {
					if kind == "answers" {
						err = win.AskAndLeave(ctx, 0, 400, 4096)
						fence()
						<-release
						return errors.Join(err, <-met)
					}
					err = win.AnnounceAndLeave(0, 200, 4096, func() { go fence() }, release)
					return errors.Join(err, <-met)
				}
				if w.Rank() == 0 {
					owner.Store(win)
				}
				if fence(); w.Rank() == 1 {
					short, cancel := context.WithTimeout(ctx, 5*time.Second)
					defer cancel()
					for i := 0; i < 50 && err == nil; i++ {
						if _, err = win.FetchAndOp(short, 1, 0, 0, mpi.Sum[int64]()); err != nil {
							err = fmt.Errorf("operation %d: %w", i, err)
						}
					}
					if _, buffers := owner.Load().Waiting(liar); err == nil && buffers > buffersMost {
						err = fmt.Errorf("one rank has %d receive buffers", buffers)
					}
					close(release)
				}
				<-release
				return errors.Join(err, <-met)
			})
		})
	}
}

// A rank that stands still between the announcement of a request and its data does not delay other
// ranks, though many small requests wait behind the announced one. The rank is not ended: when it
// goes on, its requests are carried out, in their order.
func TestSmallRequestsBehindLarge(t *testing.T) {
	const slow, times = 2, 200
	cfg := mpi.Config{}
	cfg.Layer.EagerBytes = 64
	release := make(chan struct{})
	runWith(t, cfg, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, 100))
		if err == nil {
			err = mpi.Barrier(ctx, &w.Comm)
		}
		if err != nil {
			return err
		}
		met := make(chan error, 1)
		fence := func() { met <- w.Job().Fence(ctx) }
		switch w.Rank() {
		case slow:
			many, set := make([]int64, 100), mpi.Replace[int64]()
			err = win.AccumulateAndHold(ctx, 0, many, times, set, func() { go fence() }, release)
			err = errors.Join(err, <-met)
			if err == nil {
				err = win.Accumulate(ctx, []int64{7}, 0, 1, set)
			}
		case 1:
			fence()
			short, cancel := context.WithTimeout(ctx, 5*time.Second)
			defer cancel()
			for i := 0; i < 50 && err == nil; i++ {
				if _, err = win.FetchAndOp(short, 1, 0, 2, mpi.Sum[int64]()); err != nil {
					err = fmt.Errorf("operation %d: %w", i, err)
				}
			}
			close(release)
			err = errors.Join(err, <-met)
		default:
			fence()
			<-release
			err = <-met
		}
		if err = errors.Join(err, win.Fence(ctx)); err != nil {
			return err
		}
		if requests, buffers := win.Waiting(slow); requests+buffers > 0 {
			return fmt.Errorf("%d requests wait after a Fence, %d buffers", requests, buffers)
		}
		// The announced request, which was carried out first, has set all values to 0.
		if got := win.Mem()[1]; w.Rank() == 0 && got != 7 {
			return fmt.Errorf("the last request has left %d, not 7", got)
		}
		return w.Finalize(ctx)
	})
}
