package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// Persistent sends and receives, of few and of many bytes, from one rank and from any: each round
// has its own values, and its status.
func TestPersistent(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		for _, n := range []int{1, 100_000} {
			if err := persistentRounds(ctx, w, n); err != nil {
				return err
			}
		}
		return nil
	})
}

func persistentRounds(ctx context.Context, w *mpi.World, n int) error {
	c, right, left := &w.Comm, (w.Rank()+1)%3, (w.Rank()+2)%3
	out, in, other := make([]int32, n), make([]int32, n+1), make([]int32, n)
	var send, recv, second, away, nobody mpi.Request
	err := errors.Join(
		mpi.SendInit(&send, c, out, right, 7), mpi.RecvInit(&recv, c, in, mpi.AnySource, 7),
		mpi.SendSyncInit(&second, c, out, left, 8), mpi.RecvInit(&away, c, other, right, mpi.AnyTag),
		mpi.RecvInit(&nobody, c, in, mpi.NoRank, 7),
	)
	if err != nil {
		return err
	}
	requests := []*mpi.Request{&recv, &send, &second, &nobody}
	for round := range 20 {
		for i := range out {
			out[i] = int32(round*1000 + w.Rank())
		}
		if err := mpi.StartAll(requests...); err != nil {
			return err
		}
		s := make([]mpi.Status, len(requests)-1)
		if _, err := recv.Wait(ctx); err != nil { // so that what is left is not for any tag
			return err
		}
		if err := errors.Join(away.Start(), mpi.WaitAll(ctx, s, requests[1:]...)); err != nil {
			return err
		}
		got, err := away.Wait(ctx)
		if err != nil || got != (mpi.Status{Source: right, Tag: 8, Count: n}) ||
			s[2] != (mpi.Status{Source: mpi.NoRank, Tag: mpi.AnyTag}) {
			return fmt.Errorf("%+v, %+v, %w", got, s, err)
		}
		if in[n-1] != int32(round*1000+left) || other[n-1] != int32(round*1000+right) || in[n] != 0 {
			return fmt.Errorf("round %d: %d and %d", round, in[n-1], other[n-1])
		}
	}
	return nil
}

// Persistent collective operations, begun in another order than they were readied in.
func TestPersistentCollectives(t *testing.T) {
	run(t, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		c, rank := &w.Comm, int64(w.Rank())
		value, sum, all := []int64{0}, []int64{0}, make([]int64, 4)
		part, before, root := []int64{0}, []int64{0}, []int64{0}
		op := mpi.Sum[int64]()
		var r [7]mpi.Request
		err := errors.Join(
			mpi.BarrierInit(&r[0], c), mpi.AllreduceInit(&r[1], c, value, sum, op),
			mpi.AllgatherInit(&r[2], c, value, all), mpi.ReduceScatterInit(&r[3], c, all, part, nil, op),
			mpi.ExscanInit(&r[4], c, value, before, op), mpi.BcastInit(&r[5], c, root, 2),
			mpi.AlltoallInit(&r[6], c, all, make([]int64, 4)),
		)
		if err != nil {
			return err
		}
		for round := range int64(10) {
			value[0] = round + rank
			if root[0] = -1; rank == 2 {
				root[0] = round
			}
			for _, i := range []int{5, 1, 2, 4, 0} {
				if err := r[i].Start(); err != nil {
					return err
				}
			}
			if err := mpi.WaitAll(ctx, nil, &r[0], &r[1], &r[2], &r[4], &r[5]); err != nil {
				return err
			}
			if err := mpi.StartAll(&r[6], &r[3]); err != nil {
				return err
			}
			if err := mpi.WaitAll(ctx, nil, &r[6], &r[3]); err != nil {
				return err
			}
			wantBefore := rank*round + rank*(rank-1)/2
			if sum[0] != 4*round+6 || all[3] != round+3 || part[0] != 4*(round+rank) ||
				rank > 0 && before[0] != wantBefore || root[0] != round {
				return fmt.Errorf("round %d: %v %v %v %v %v", round, sum, all, part, before, root)
			}
		}
		return nil
	})
}

// What cannot be started says so; other uses of a request end that it was readied.
func TestPersistentErrors(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		c, one := &w.Comm, []int32{1}
		d, err := c.Split(ctx, w.Rank(), 0)
		if err != nil {
			return err
		}
		var none, recv, op mpi.Request
		errs := []struct{ err, want error }{
			{none.Start(), mpi.ErrNotInit},
			{mpi.StartAll(&none), mpi.ErrNotInit},
			{mpi.SendInit(&none, c, one, 2, 0), mpi.ErrRank},
			{mpi.SendInit(&none, c, one, 0, -1), mpi.ErrTag},
			{mpi.SendInit(&none, c, []string{""}, 0, 0), mpi.ErrType},
			{mpi.RecvInit(&none, c, one, 2, 0), mpi.ErrRank},
			{mpi.RecvInit(&none, c, []bool{true}, 0, 0), mpi.ErrType},
			{mpi.BcastInit(&none, c, one, 2), mpi.ErrRank},
			{mpi.AllreduceInit(&none, c, one, nil, mpi.Sum[int32]()), mpi.ErrCount},
			{none.Start(), mpi.ErrNotInit},
			{mpi.RecvInit(&recv, c, one, mpi.AnySource, 0), nil},
			{recv.Start(), nil},
			{recv.Start(), mpi.ErrBusy},
			{mpi.SendInit(&recv, c, one, 1, 0), mpi.ErrBusy},
			{mpi.RecvInit(&recv, c, one, 1, 0), mpi.ErrBusy},
			{mpi.BarrierInit(&recv, c), mpi.ErrBusy},
		}
		for range 2 {
			cancelled := recv.Cancel()
			_, err := recv.Wait(ctx)
			if !cancelled {
				return errors.New("not cancelled")
			}
			errs = append(errs, struct{ err, want error }{err, mpi.ErrCancelled},
				struct{ err, want error }{recv.Start(), nil})
		}
		recv.Cancel()
		_, _ = recv.Wait(ctx)
		errs = append(errs, []struct{ err, want error }{
			{mpi.BarrierInit(&op, c), nil},
			{mpi.Irecv(&recv, c, one, mpi.NoRank, 0), nil},
			{mpi.WaitAll(ctx, nil, &recv), nil},
			{recv.Start(), mpi.ErrNotInit},
			{op.Start(), nil},
			{op.Start(), mpi.ErrBusy},
			{mpi.WaitAll(ctx, nil, &op), nil},
			{mpi.BarrierInit(&op, d), nil},
			{mpi.SendInit(&none, d, one, 0, 0), nil},
			{d.Revoke(), nil},
			{op.Start(), mpi.ErrRevoked},
			{none.Start(), mpi.ErrRevoked},
			{mpi.SendInit(&recv, d, one, 0, 0), mpi.ErrRevoked},
		}...)
		for i, is := range errs {
			if !errors.Is(is.err, is.want) {
				return fmt.Errorf("case %d: %w, want: %w", i, is.err, is.want)
			}
		}
		return nil
	})
}

// A start of what a rank that is gone would have to answer is its RankError.
func TestStartAfterDeath(t *testing.T) {
	runWith(t, soon(), "udp", 2, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 1 {
			_, err := mpi.Recv(ctx, &w.Comm, make([]int32, 1), 0, 5)
			w.Kill()
			return err
		}
		if err := mpi.Send(ctx, &w.Comm, []int32{1}, 1, 5); err != nil {
			return err
		}
		var send, recv mpi.Request
		err := errors.Join(mpi.SendInit(&send, &w.Comm, []int32{1}, 1, 0),
			mpi.RecvInit(&recv, &w.Comm, []int32{1}, 1, 0), recv.Start())
		if err != nil {
			return err
		}
		if err := send.Start(); err != nil {
			return err
		}
		if err := dead(waited(ctx, &recv), 1); err != nil {
			return err
		}
		_ = waited(ctx, &send) // It may have been sent.
		return errors.Join(dead(send.Start(), 1), dead(recv.Start(), 1))
	})
}

func waited(ctx context.Context, r *mpi.Request) error { _, err := r.Wait(ctx); return err }

// Rounds of persistent requests, messages and a collective operation, allocate nothing.
func TestStartAllocatesNothing(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	run(t, "udp", 1, func(ctx context.Context, w *mpi.World) error {
		c, data, room := &w.Comm, make([]float64, 8), make([]float64, 8)
		var send, recv, sum mpi.Request
		err := errors.Join(mpi.SendInit(&send, c, data, 0, 1), mpi.RecvInit(&recv, c, room, 0, 1),
			mpi.AllreduceInit(&sum, c, data, room, mpi.Sum[float64]()))
		if err != nil {
			return err
		}
		requests := []*mpi.Request{&recv, &send, &sum}
		once := func() {
			err = errors.Join(err, mpi.StartAll(requests...), mpi.WaitAll(ctx, nil, requests...))
		}
		for range 2000 {
			once()
		}
		if n := testing.AllocsPerRun(500, once); n != 0 || err != nil {
			return fmt.Errorf("%v allocations, %w", n, err)
		}
		return nil
	})
}
