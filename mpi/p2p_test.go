package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"testing"

	"gobtl/mpi"
)

type point struct {
	X, Y float64
	N    [2]int32
}

// Messages of all sizes, to all ranks and to oneself, arrive with their values, their source and
// their tag.
func TestSendRecv(t *testing.T) {
	for _, provider := range fabrics {
		for _, size := range []int{1, 2, 3, 5} {
			t.Run(fmt.Sprintf("%s/%d", provider, size), func(t *testing.T) {
				run(t, provider, size, ring)
			})
		}
	}
}

func ring(ctx context.Context, w *mpi.World) error {
	right, left := (w.Rank()+1)%w.Size(), (w.Rank()+w.Size()-1)%w.Size()
	for _, n := range []int{0, 1, 7, 1000, 1024, 1025, 100_000} {
		out, in := make([]int64, n), make([]int64, n+1)
		for i := range out {
			out[i] = int64(w.Rank()*1_000_000 + i)
		}
		status, err := mpi.Sendrecv(ctx, &w.Comm, out, right, n%100, in, left, n%100)
		if err != nil {
			return err
		}
		if status != (mpi.Status{Source: left, Tag: n % 100, Count: n}) {
			return fmt.Errorf("status of %d values is %+v", n, status)
		}
		for i, v := range in[:n] {
			if v != int64(left*1_000_000+i) {
				return fmt.Errorf("of %d values number %d is %d", n, i, v)
			}
		}
		if in[n] != 0 {
			return fmt.Errorf("%d values, and one behind them is %d", n, in[n])
		}
	}
	return nil
}

// Every kind of type arrives as it was; types with pointers are refused.
func TestTypes(t *testing.T) {
	run(t, "mem/local", 1, func(ctx context.Context, w *mpi.World) error {
		return errors.Join(
			echo(ctx, w, []byte("bytes")), echo(ctx, w, []int8{-1, 2}), echo(ctx, w, []uint16{1, 65535}),
			echo(ctx, w, []float32{1.5}), echo(ctx, w, []complex128{1i, 2}),
			echo(ctx, w, []int{math.MinInt}),
			echo(ctx, w, []point{{1, 2, [2]int32{3, 4}}, {5, 6, [2]int32{7, 8}}}),
			echo(ctx, w, [][3]uint8{{1, 2, 3}}),
			refused(ctx, w, []string{""}), refused(ctx, w, []*int{nil}), refused(ctx, w, []bool{true}),
			refused(ctx, w, []struct{ V any }{{}}), refused(ctx, w, [][]byte{nil}),
			refused(ctx, w, []struct{}{{}}), refused(ctx, w, [][2]uintptr{{}}),
		)
	})
}

func echo[T comparable](ctx context.Context, w *mpi.World, data []T) error {
	room := make([]T, len(data))
	if _, err := mpi.Sendrecv(ctx, &w.Comm, data, 0, 0, room, 0, 0); err != nil {
		return err
	}
	if !slices.Equal(data, room) {
		return fmt.Errorf("%v came as %v", data, room)
	}
	return nil
}

func refused[T any](ctx context.Context, w *mpi.World, data []T) error {
	for range 2 { // the second verdict is remembered
		if err := mpi.Send(ctx, &w.Comm, data, mpi.NoRank, 0); !errors.Is(err, mpi.ErrType) {
			return fmt.Errorf("%T: %w", data, err)
		}
	}
	return nil
}

// Arguments that make no sense are errors, and leave requests unused.
func TestArguments(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		c, one := &w.Comm, []int32{1}
		var r mpi.Request
		recv := func(from, tag int) error { _, err := mpi.Recv(ctx, c, one, from, tag); return err }
		probe := func(from, tag int) error { _, err := mpi.Probe(ctx, c, from, tag); return err }
		wait := func() error { _, err := r.Wait(ctx); return err }
		for i, is := range []struct{ err, want error }{
			{mpi.Send(ctx, c, one, 2, 0), mpi.ErrRank},
			{mpi.Send(ctx, c, one, mpi.AnySource, 0), mpi.ErrRank},
			{mpi.Send(ctx, c, one, 0, -1), mpi.ErrTag},
			{mpi.Send(ctx, c, one, 0, mpi.TagMax+1), mpi.ErrTag},
			{mpi.Isend(&r, c, one, 2, 0), mpi.ErrRank},
			{mpi.Irecv(&r, c, one, -3, 0), mpi.ErrRank},
			{mpi.Irecv(&r, c, one, 0, -2), mpi.ErrTag},
			{recv(2, 0), mpi.ErrRank},
			{recv(0, mpi.TagMax+1), mpi.ErrTag},
			{probe(2, 0), mpi.ErrRank},
			{wait(), mpi.ErrInactive},
			{mpi.Send(ctx, c, one, mpi.NoRank, 0), nil},
			{recv(mpi.NoRank, 0), nil},
			{probe(mpi.NoRank, 0), nil},
			{mpi.Irecv(&r, c, one, 0, 0), nil},
			{mpi.Irecv(&r, c, one, 0, 0), mpi.ErrBusy},
		} {
			if !errors.Is(is.err, is.want) {
				return fmt.Errorf("case %d: %w, want: %w", i, is.err, is.want)
			}
		}
		if !r.Cancel() {
			return errors.New("a receive that nobody has matched is not cancelled")
		}
		if _, err := r.Wait(ctx); !errors.Is(err, mpi.ErrCancelled) {
			return err
		}
		return nil
	})
}

// What does not fit is told, and so is what is no whole number of values.
func TestTruncated(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		const most = 100_000
		for _, n := range []int{3, most} {
			if w.Rank() == 0 {
				if err := mpi.Send(ctx, &w.Comm, slices.Repeat([]byte{7}, n), 1, 0); err != nil {
					return err
				}
				continue
			}
			room := make([]byte, most)
			s, err := mpi.Recv(ctx, &w.Comm, room[:n-1], 0, 0)
			if !errors.Is(err, mpi.ErrTruncated) || s.Count != n-1 || room[n-2] != 7 || room[n-1] != 0 {
				return fmt.Errorf("%d bytes into %d: %+v, %v, %w", n, n-1, s, room[n-2:n], err)
			}
		}
		if w.Rank() == 0 {
			return mpi.Send(ctx, &w.Comm, make([]byte, 7), 1, 0)
		}
		s, err := mpi.Recv(ctx, &w.Comm, make([]int32, 2), 0, 0)
		if !errors.Is(err, mpi.ErrCount) || s.Count != 1 {
			return fmt.Errorf("7 bytes as 4 byte numbers: %+v, %w", s, err)
		}
		return nil
	})
}

// Messages of one rank come in order, also to receives of any source and tag, and a probe tells of
// the one that comes next.
func TestAnyAndProbe(t *testing.T) {
	const each = 100
	run(t, "udp", 4, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() > 0 {
			for i := range each {
				size := 1 + i%3*2000
				if err := mpi.Send(ctx, &w.Comm, slices.Repeat([]int32{int32(i)}, size), 0, i%7); err != nil {
					return err
				}
			}
			return nil
		}
		next := make([]int, w.Size())
		for range (w.Size() - 1) * each {
			s, err := mpi.Probe(ctx, &w.Comm, mpi.AnySource, mpi.AnyTag)
			if err != nil {
				return err
			}
			room := make([]int32, s.Count/4)
			got, err := mpi.Recv(ctx, &w.Comm, room, s.Source, mpi.AnyTag)
			if err != nil {
				return err
			}
			i := next[s.Source]
			next[s.Source]++
			if got.Source != s.Source || got.Tag != i%7 || got.Count*4 != s.Count ||
				got.Count != 1+i%3*2000 || room[0] != int32(i) {
				return fmt.Errorf("probe %+v, message %+v with %d; want number %d", s, got, room[0], i)
			}
		}
		if ok, s, err := mpi.Iprobe(&w.Comm, mpi.AnySource, mpi.AnyTag); ok || err != nil {
			return fmt.Errorf("there is more: %+v, %w", s, err)
		}
		return nil
	})
}
