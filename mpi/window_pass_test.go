package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"gobtl/fabric/sim"
	"gobtl/mpi"
)

// windowStage opens a job of two ranks over a good network. The argument "eager" selects one of the
// values of EagerBytes in openStage.
func windowStage(t *testing.T, eager int) *stage {
	seed := uint64(1)
	for rand.New(rand.NewPCG(seed, 11)).IntN(4) != eager { // the first draw of openStage
		seed++
	}
	s := newStage(t, seed, 2)
	for i := range s.ranks {
		s.SetPath(s.ranks[i].Node, s.ranks[1-i].Node, sim.Path{Delay: 20 * time.Microsecond})
	}
	return s
}

// pause gives way for some simulated time.
func (a *actor) pause(d time.Duration) {
	until := a.stage.Now().Add(d)
	a.wait(func() bool { return a.stage.Now() >= until })
}

// A rank that polls once, and then computes, has answered the requests that have arrived. The
// requests and their answers take several packets.
func TestWindowAnswersInOnePass(t *testing.T) {
	s := windowStage(t, 3)
	values := 0
	for _, a := range s.ranks {
		values = max(values, 2*a.mod.Limits().MTUBytes/8)
	}
	asks, answered := false, false
	s.play(t, func(ctx context.Context, w *mpi.World) error {
		a := s.ranks[w.Rank()]
		win, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, values))
		if err != nil {
			return err
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == 1 {
			a.wait(func() bool { return asks })
			old := make([]int64, values)
			err := win.GetAccumulate(ctx, old, old, 0, 0, mpi.Sum[int64]())
			err = errors.Join(err, win.Flush(ctx, 0))
			answered = true
			return errors.Join(err, win.Fence(ctx))
		}
		a.pause(10 * time.Millisecond)
		a.Run(nil) // It computes.
		asks = true
		a.pause(10 * time.Millisecond)
		if _, err := w.Pass(s.Now()); err != nil {
			return err
		}
		a.pause(10 * time.Millisecond)
		if !answered {
			err = errors.New("no answer has come")
		}
		a.Run(a)
		return errors.Join(err, win.Fence(ctx))
	}, nil)
	s.end(t)
}

// The end of a rank whose request has not arrived completely ends the wait of the later requests of
// this rank, although no packet arrives any more.
func TestWindowRequestsOfTheDead(t *testing.T) {
	const many, later = 50, 3
	s := windowStage(t, 1)
	var win *mpi.Window[int64] // of rank 0
	s.play(t, func(ctx context.Context, w *mpi.World) error {
		a := s.ranks[w.Rank()]
		own, err := mpi.NewWindow(ctx, &w.Comm, make([]int64, many))
		if err != nil {
			return err
		}
		if err := own.Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == 1 {
			ones, release := slices.Repeat([]int64{1}, many), make(chan struct{})
			close(release)
			err := own.AccumulateAndHold(ctx, 0, ones, later, mpi.Sum[int64](), func() {}, release)
			a.wait(func() bool { return a.dead })
			return err
		}
		win = own
		a.wait(func() bool { return s.ranks[1].dead })
		a.wait(func() bool { return len(w.Failed()) > 0 })
		if n, _ := own.Waiting(1); n > 0 || own.Mem()[0] != later {
			return fmt.Errorf("%d requests wait, value %d", n, own.Mem()[0])
		}
		return nil
	}, func() error {
		if win == nil || s.ranks[1].dead {
			return nil
		}
		if n, _ := win.Waiting(1); n == later+1 {
			s.crash(s.ranks[1])
		}
		return nil
	})
	s.end(t)
}
