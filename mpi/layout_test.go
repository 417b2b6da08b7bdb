package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// numbered are values that tell their places.
func numbered[T int8 | int16 | int64](n int) []T {
	data := make([]T, n)
	for i := range data {
		data[i] = T(i + 1)
	}
	return data
}

// drawLayout draws a layout over data, and says where its values are.
func drawLayout[T any](random *rand.Rand, data []T) (l *mpi.Layout[T], places []int, err error) {
	block := func(at, n int) {
		for i := range n {
			places = append(places, at+i)
		}
	}
	switch n := len(data); random.IntN(4) {
	case 0:
		size := 1 + random.IntN(9)
		stride := size + random.IntN(9)
		count := random.IntN((n-size)/stride + 1)
		down := random.IntN(2)
		for i := range count {
			if down == 1 {
				block(n-size-i*stride, size)
			} else {
				block(i*stride, size)
			}
		}
		l, err = mpi.Strided(data, count, size, stride*(1-2*down))
	case 1:
		size := 1 + random.IntN(5)
		starts := random.Perm(n / size)[:random.IntN(n/size)]
		for i := range starts {
			starts[i] *= size
			block(starts[i], size)
		}
		l, err = mpi.IndexedBlocks(data, starts, size)
	case 2:
		var starts, lengths []int
		for at := 0; at < n; {
			length, gap := min(random.IntN(40), n-at), random.IntN(20)
			starts, lengths = append(starts, at), append(lengths, length)
			at += length + gap
		}
		random.Shuffle(len(starts), func(i, j int) {
			starts[i], starts[j] = starts[j], starts[i]
			lengths[i], lengths[j] = lengths[j], lengths[i]
		})
		for i, at := range starts {
			block(at, lengths[i])
		}
		l, err = mpi.Indexed(data, starts, lengths)
	default:
		rows, columns := 3, 5
		planes := n / 15
		part := []int{random.IntN(planes + 1), random.IntN(4), random.IntN(6)}
		start := []int{
			random.IntN(planes - part[0] + 1), random.IntN(4 - part[1]), random.IntN(6 - part[2]),
		}
		for i := range part[0] {
			for j := range part[1] {
				block(((start[0]+i)*rows+start[1]+j)*columns+start[2], part[2])
			}
		}
		l, err = mpi.Subarray(data[:planes*15], []int{planes, rows, columns}, part, start)
	}
	return l, places, err
}

// Layouts are the values of their places, in their order, and nothing else.
func TestLayoutPack(t *testing.T) {
	random := rand.New(rand.NewPCG(testenv.Seed(t, 1), 3))
	for range 1000 {
		n := 20 + random.IntN(500)
		if err := errors.Join(packed[int8](random, n), packed[int16](random, n),
			packed[int64](random, n)); err != nil {
			t.Fatal(err)
		}
	}
}

func packed[T int8 | int16 | int64](random *rand.Rand, n int) error {
	data := numbered[T](n)
	l, places, err := drawLayout(random, data)
	if err != nil || l.Len() != len(places) {
		return fmt.Errorf("%d values, want %d: %w", l.Len(), len(places), err)
	}
	room := make([]T, random.IntN(len(places)+3))
	some := min(len(room), len(places))
	if n := l.Pack(room); n != some {
		return fmt.Errorf("%d are packed, want %d", n, some)
	}
	for i, v := range room {
		if i < some && v != T(places[i]+1) || i >= some && v != 0 {
			return fmt.Errorf("value %d of %v is %d", i, places, v)
		}
	}
	want := slices.Clone(data)
	for i := range room {
		if room[i] = T(-i); i < some {
			want[places[i]] = T(-i)
		}
	}
	if n := l.Unpack(room); n != some || !slices.Equal(data, want) {
		return fmt.Errorf("%d of %d: %v, want %v", n, some, data, want)
	}
	return nil
}

// Messages from layouts into layouts, small and large, by all kinds of calls.
func TestLayoutMessages(t *testing.T) {
	seed := testenv.Seed(t, 1)
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		for round := range uint64(24) {
			if err := layoutMessage(ctx, w, rand.New(rand.NewPCG(seed, round)), round); err != nil {
				return fmt.Errorf("round %d: %w", round, err)
			}
		}
		return nil
	})
}

// layoutMessage sends one message; both ranks draw the same.
func layoutMessage(ctx context.Context, w *mpi.World, random *rand.Rand, round uint64) error {
	n := []int{100, 3000, 40_000}[round%3]
	out, in := numbered[int64](n), make([]int64, 2*n)
	from, sent, err := drawLayout(random, out)
	if err != nil {
		return err
	}
	to, got, err := drawLayout(random, in)
	if err != nil {
		return err
	}
	c, tag := &w.Comm, int(round)
	if w.Rank() == 0 {
		var r mpi.Request
		switch round / 3 % 4 {
		case 0:
			return from.Send(ctx, c, 1, tag)
		case 1:
			return from.SendSync(ctx, c, 1, tag)
		case 2:
			return errors.Join(from.Isend(&r, c, 1, tag), waited(ctx, &r))
		}
		return errors.Join(from.SendInit(&r, c, 1, tag), r.Start(), waited(ctx, &r))
	}
	var s mpi.Status
	var r mpi.Request
	switch round / 3 % 3 {
	case 0:
		s, err = to.Recv(ctx, c, 0, tag)
	case 1:
		if err := to.Irecv(&r, c, 0, tag); err != nil {
			return err
		}
		s, err = r.Wait(ctx)
	default:
		if err := errors.Join(to.RecvInit(&r, c, 0, tag), r.Start()); err != nil {
			return err
		}
		s, err = r.Wait(ctx)
	}
	count := min(len(sent), len(got))
	if len(sent) > len(got) && errors.Is(err, mpi.ErrTruncated) {
		err = nil
	}
	want := make([]int64, 2*n)
	for i := range count {
		want[got[i]] = out[sent[i]]
	}
	if err != nil || s != (mpi.Status{Source: 0, Tag: tag, Count: count}) || !slices.Equal(in, want) {
		return fmt.Errorf("%d values to %d: %+v, %w", len(sent), len(got), s, err)
	}
	return nil
}

// Collective operations of columns of a matrix.
func TestLayoutCollectives(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		const rows, columns = 4, 5
		c, rank := &w.Comm, w.Rank()
		m := make([]int32, rows*columns)
		column, err := mpi.Strided(m[rank:], rows, 1, columns) // another one at each rank
		if err != nil {
			return err
		}
		fill := func(v int32) { column.Unpack([]int32{v, v + 1, v + 2, v + 3}) }
		fill(int32(rank * 10))
		all := make([]int32, rows*3)
		if err := column.Allgather(ctx, c, all); err != nil {
			return err
		}
		at1 := make([]int32, rows*3)
		if err := column.Gather(ctx, c, at1, 1); err != nil {
			return err
		}
		want := []int32{0, 1, 2, 3, 10, 11, 12, 13, 20, 21, 22, 23}
		if !slices.Equal(all, want) || slices.Equal(at1, want) != (rank == 1) {
			return fmt.Errorf("gathered %v and %v", all, at1)
		}
		if err := column.Scatter(ctx, c, want, 2); err != nil { // to whom it came from
			return err
		}
		if fill(int32(rank * 10)); rank != 1 {
			fill(-5)
		}
		if err := column.Bcast(ctx, c, 1); err != nil {
			return err
		}
		for i, v := range m {
			if i%columns != rank && v != 0 || i%columns == rank && v != int32(10+i/columns) {
				return fmt.Errorf("the matrix is %v", m)
			}
		}
		return nil
	})
}

// What is put, got or accumulated lies there as it does here.
func TestLayoutWindows(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		mem := make([]int64, 50)
		win, err := mpi.NewWindow(ctx, &w.Comm, mem)
		if err != nil {
			return err
		}
		if w.Rank() == 0 {
			data := numbered[int64](40)
			l, err := mpi.Indexed(data, []int{30, 3, 11}, []int{2, 1, 4})
			if err != nil {
				return err
			}
			beyond := l.Put(ctx, win, 1, 19) // the first block ends at 51
			err = errors.Join(l.Put(ctx, win, 1, 5), win.Flush(ctx, 1),
				l.Accumulate(ctx, win, 1, 5, mpi.Sum[int64]()), win.Flush(ctx, 1))
			clear(data)
			err = errors.Join(err, l.Get(ctx, win, 1, 5), win.Flush(ctx, 1))
			want := make([]int64, 40)
			for _, i := range []int{30, 31, 3, 11, 12, 13, 14} {
				want[i] = 2 * int64(i+1)
			}
			if err != nil || !slices.Equal(data, want) || !errors.Is(beyond, mpi.ErrBounds) {
				return fmt.Errorf("got %v: %w, beyond the end: %w", data, err, beyond)
			}
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		for i, v := range mem {
			want := int64(0)
			if w.Rank() == 1 && slices.Contains([]int{35, 36, 8, 16, 17, 18, 19}, i) {
				want = 2 * int64(i-4)
			}
			if v != want {
				return fmt.Errorf("value %d is %d", i, v)
			}
		}
		return win.Free(ctx)
	})
}

// Layouts that do not fit their slices are errors.
func TestLayoutArguments(t *testing.T) {
	data := make([]int32, 12)
	made := func(l *mpi.Layout[int32], err error) error {
		if err == nil {
			return fmt.Errorf("%d values", l.Len())
		}
		return err
	}
	const huge = math.MaxInt/2 + 1
	none, err := mpi.Subarray(data[:0], []int{huge, 0}, []int{huge, 0}, []int{0, 0})
	if err != nil || none.Len() != 0 {
		t.Errorf("no values: %v", err)
	}
	for _, count := range []int{0, 3, huge} {
		none, err := mpi.Strided(data, count, 0, 100)
		if err != nil || none.Len() != 0 || none.Pack(data) != 0 {
			t.Errorf("%d blocks of no values: %v", count, err)
		}
	}
	const many = math.MaxInt >> 23
	same, err := mpi.Strided(data, many, 2, 0) // one block, again and again, takes no memory
	if data[1] = 7; err != nil || same.Len() != 2*many || same.Pack(make([]int32, 3)) != 3 {
		t.Errorf("one block again and again: %v", err)
	}
	_, pointers := mpi.Strided([]*int{nil}, 1, 1, 1)
	const wide = 1 << (bits.UintSize / 2) // its square is more than an int holds
	for i, is := range []struct{ err, want error }{
		{made(mpi.Strided(data, 4, 1, 4)), mpi.ErrBounds},
		{made(mpi.Strided(data, 3, 5, 4)), mpi.ErrBounds},
		{made(mpi.Strided(data, 4, 1, -4)), mpi.ErrBounds},
		{made(mpi.Strided(data, -1, 1, 1)), mpi.ErrBounds},
		{made(mpi.Strided(data, 1, -1, 1)), mpi.ErrBounds},
		{made(mpi.Strided(data, -1, 0, 1)), mpi.ErrBounds},
		{made(mpi.Strided(data, huge, 1, huge)), mpi.ErrBounds},
		{made(mpi.Strided(data, huge, 1, 4)), mpi.ErrBounds},
		{made(mpi.Strided(data, huge, 1, 0)), mpi.ErrBounds}, // more bytes than an int counts
		{made(mpi.Strided(data, 2, 1, math.MinInt)), mpi.ErrBounds},
		{made(mpi.Strided(data[:0], 1, 1, 0)), mpi.ErrBounds},
		{made(mpi.IndexedBlocks(data, []int{11}, 2)), mpi.ErrBounds},
		{made(mpi.IndexedBlocks(data, []int{-1}, 2)), mpi.ErrBounds},
		{made(mpi.IndexedBlocks(data, []int{1}, math.MaxInt)), mpi.ErrBounds},
		{made(mpi.Indexed(data, []int{1}, nil)), mpi.ErrCount},
		{made(mpi.Indexed(data, []int{1}, []int{12})), mpi.ErrBounds},
		{made(mpi.Indexed(data, []int{1}, []int{-1})), mpi.ErrBounds},
		{made(mpi.Subarray(data, []int{3, 4}, []int{2, 2}, []int{2, 0})), mpi.ErrBounds},
		{made(mpi.Subarray(data, []int{3, 5}, []int{1, 1}, []int{0, 0})), mpi.ErrCount},
		{made(mpi.Subarray(data[:0], []int{wide, wide}, []int{1, 1}, []int{0, 0})), mpi.ErrCount},
		{made(mpi.Subarray(data, []int{3, 3}, []int{1, 1}, []int{0, 0})), mpi.ErrCount},
		{made(mpi.Subarray(data, []int{12}, []int{1, 1}, []int{0})), mpi.ErrCount},
		{made(mpi.Subarray(data, nil, nil, nil)), mpi.ErrCount},
		{pointers, mpi.ErrType},
	} {
		if !errors.Is(is.err, is.want) {
			t.Errorf("case %d: %v, want %v", i, is.err, is.want)
		}
	}
}
