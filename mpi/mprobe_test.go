package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// A message of Mprobe, small or large, is received only by its holder and by no other matching
// receive. Later messages can be received before it.
func TestMprobe(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		c, size := &w.Comm, []int{1, 1, 50_000, 50_000, 3}
		if w.Rank() == 0 {
			for i, n := range size {
				data := make([]int32, n)
				data[n-1] = int32(i)
				if err := mpi.SendSync(ctx, c, data, 1, i%2); err != nil && i < 4 {
					return err
				}
			}
			return nil
		}
		room := make([]int32, 60_000)
		for i, n := range size[:4] {
			found, s, err := mpi.Mprobe(ctx, c, mpi.AnySource, mpi.AnyTag)
			if want := (mpi.Status{Source: 0, Tag: i % 2, Count: 4 * n}); err != nil || s != want {
				return fmt.Errorf("found %+v, want %+v: %w", s, want, err)
			}
			if other, _, err := mpi.Improbe(c, 0, mpi.AnyTag); other != nil || err != nil {
				return fmt.Errorf("message %d is found twice: %w", i, err)
			}
			want := mpi.Status{Source: 0, Tag: i % 2, Count: n}
			if i%2 == 0 {
				s, err = mpi.Mrecv(ctx, found, room)
			} else {
				var r mpi.Request
				if err := mpi.Imrecv(&r, found, room); err != nil {
					return err
				}
				s, err = r.Wait(ctx)
			}
			if err != nil || s != want || room[n-1] != int32(i) {
				return fmt.Errorf("received %+v, want %+v: %w", s, want, err)
			}
			if _, err := mpi.Mrecv(ctx, found, room); !errors.Is(err, mpi.ErrMessage) {
				return fmt.Errorf("received twice: %w", err)
			}
		}
		var found *mpi.Message
		for found == nil && ctx.Err() == nil {
			var err error
			if found, _, err = mpi.Improbe(c, 0, 0); err != nil {
				return err
			}
		}
		if s, err := mpi.Mrecv(ctx, found, room[:2]); !errors.Is(err, mpi.ErrTruncated) {
			return fmt.Errorf("%+v, %w", s, err)
		}
		return nil
	})
}

// Messages that Mprobe has found and that were not received are dropped with their communicator, so
// that their sends end.
func TestMprobeRevoked(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		c, err := w.Dup(ctx)
		if err != nil {
			return err
		}
		if c.Rank() == 0 {
			var small, large mpi.Request
			err := errors.Join(mpi.IsendSync(&small, c, make([]int32, 10), 1, 1),
				mpi.Isend(&large, c, make([]int32, 1<<20), 1, 2))
			return errors.Join(err, mpi.WaitAll(ctx, nil, &small, &large))
		}
		room := make([]int32, 10)
		var found [2]*mpi.Message
		for i := range found {
			if found[i], _, err = mpi.Mprobe(ctx, c, 0, 1+i); err != nil {
				return err
			}
		}
		if err := c.Revoke(); err != nil {
			return err
		}
		for _, m := range found {
			if _, err := mpi.Mrecv(ctx, m, room); !errors.Is(err, mpi.ErrRevoked) {
				return fmt.Errorf("not revoked: %w", err)
			}
		}
		if s := w.LayerStats(); s.UnexpectedBytes != 0 {
			return fmt.Errorf("%d bytes are kept", s.UnexpectedBytes)
		}
		return nil
	})
}

// What cannot be probed says why; nobody's message is nothing.
func TestMprobeArguments(t *testing.T) {
	run(t, "mem/local", 1, func(ctx context.Context, w *mpi.World) error {
		c := &w.Comm
		nobody, s, err := mpi.Mprobe(ctx, c, mpi.NoRank, 3)
		want := mpi.Status{Source: mpi.NoRank, Tag: mpi.AnyTag}
		if err != nil || s != want {
			return fmt.Errorf("%+v, %w", s, err)
		}
		if s, err = mpi.Mrecv(ctx, nobody, []int32{1}); err != nil || s != want {
			return fmt.Errorf("%+v, %w", s, err)
		}
		d, err := c.Dup(ctx)
		if err != nil {
			return err
		}
		if err := mpi.Send(ctx, d, []byte{1}, 0, 0); err != nil {
			return err
		}
		found, _, err := mpi.Mprobe(ctx, d, 0, 0)
		if err != nil {
			return err
		}
		brief, cancel := context.WithCancel(ctx)
		cancel()
		probe := func(ctx context.Context, c *mpi.Comm, from, tag int) error {
			_, _, err := mpi.Mprobe(ctx, c, from, tag)
			return err
		}
		improbe := func(from, tag int) error { _, _, err := mpi.Improbe(d, from, tag); return err }
		var r mpi.Request
		for i, is := range []struct{ err, want error }{
			{probe(ctx, c, 1, 0), mpi.ErrRank},
			{probe(ctx, c, 0, -2), mpi.ErrTag},
			{improbe(1, 0), mpi.ErrRank},
			{improbe(0, 0), nil},
			{mpi.Imrecv(&r, found, []string{""}), mpi.ErrType},
			{probe(brief, c, 0, 0), context.Canceled},
			{d.Revoke(), nil},
			{improbe(0, 0), mpi.ErrRevoked},
			{probe(ctx, d, 0, 0), mpi.ErrRevoked},
			{mpi.Imrecv(&r, found, []byte{1}), mpi.ErrRevoked},
		} {
			if !errors.Is(is.err, is.want) {
				return fmt.Errorf("case %d: %w, want: %w", i, is.err, is.want)
			}
		}
		return nil
	})
}

// Some of the requests have ended, the others go on.
func TestTestSome(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		var r [3]mpi.Request
		some := []*mpi.Request{&r[0], &r[1], &r[2]}
		if none, err := mpi.TestSome(nil, some...); none != nil || err != nil {
			return fmt.Errorf("of none active %v have ended: %w", none, err)
		}
		if w.Rank() == 0 {
			for tag := range 2 {
				if err := mpi.Send(ctx, &w.Comm, []int32{int32(tag)}, 1, tag); err != nil {
					return err
				}
			}
			if _, err := mpi.Recv(ctx, &w.Comm, make([]int32, 1), 1, 0); err != nil {
				return err
			}
			return mpi.Send(ctx, &w.Comm, []int32{2}, 1, 2)
		}
		rooms := [3][]int32{make([]int32, 1), make([]int32, 1), make([]int32, 1)}
		for i := range r {
			if err := mpi.Irecv(&r[i], &w.Comm, rooms[i], 0, i); err != nil {
				return err
			}
		}
		seen := 0
		for seen < 3 && ctx.Err() == nil {
			ended, err := mpi.TestSome([]int{7}, some...)
			if err != nil || ended[0] != 7 {
				return fmt.Errorf("%v, %w", ended, err)
			}
			for _, i := range ended[1:] {
				s, err := r[i].Wait(ctx)
				if err != nil || s.Tag != i || rooms[i][0] != int32(i) {
					return fmt.Errorf("request %d: %+v, %w", i, s, err)
				}
				if seen++; seen == 2 {
					if err := mpi.Send(ctx, &w.Comm, []int32{0}, 0, 0); err != nil {
						return err
					}
				}
			}
		}
		return ctx.Err()
	})
}

func TestSendrecvReplace(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		for _, n := range []int{1, 50_000} {
			data := make([]int32, n)
			data[0], data[n-1] = int32(w.Rank()), int32(w.Rank())
			right, left := (w.Rank()+1)%3, (w.Rank()+2)%3
			s, err := mpi.SendrecvReplace(ctx, &w.Comm, data, right, 4, left, 4)
			if err != nil || s != (mpi.Status{Source: left, Tag: 4, Count: n}) ||
				data[0] != int32(left) || data[n-1] != int32(left) {
				return fmt.Errorf("%+v, %d: %w", s, data[0], err)
			}
		}
		return nil
	})
}
