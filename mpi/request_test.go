package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"time"

	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// exchange sends 64 messages from rank 0 to 1 in reverse order of tags, some small and some large,
// which collect receives.
func exchange(ctx context.Context, w *mpi.World,
	collect func(rooms [][]int32, requests []*mpi.Request) error,
) error {
	const count = 64
	size := func(i int) int { return 1 + i%4*3000 }
	requests, rooms := make([]*mpi.Request, count), make([][]int32, count)
	for i := range requests {
		requests[i] = new(mpi.Request)
		var err error
		if rooms[i] = make([]int32, size(i)); w.Rank() == 0 {
			tag := count - 1 - i
			rooms[i] = slices.Repeat([]int32{int32(tag)}, size(tag))
			err = mpi.Isend(requests[i], &w.Comm, rooms[i], 1, tag)
		} else {
			err = mpi.Irecv(requests[i], &w.Comm, rooms[i], 0, i)
		}
		if err != nil {
			return err
		}
	}
	if w.Rank() == 0 {
		return mpi.WaitAll(ctx, nil, requests...)
	}
	if err := collect(rooms, requests); err != nil {
		return err
	}
	for i, room := range rooms {
		if requests[i].Active() || room[0] != int32(i) || room[len(room)-1] != int32(i) {
			return fmt.Errorf("message %d: active %v, %d to %d", i, requests[i].Active(), room[0],
				room[len(room)-1])
		}
	}
	return nil
}

func TestWaitAll(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		return exchange(ctx, w, func(rooms [][]int32, requests []*mpi.Request) error {
			statuses := make([]mpi.Status, len(requests))
			if err := mpi.WaitAll(ctx, statuses, requests...); err != nil {
				return err
			}
			for i, s := range statuses {
				if s != (mpi.Status{Source: 0, Tag: i, Count: len(rooms[i])}) {
					return fmt.Errorf("status %d: %+v", i, s)
				}
			}
			return mpi.WaitAll(ctx, nil, requests...) // None is active: no wait.
		})
	})
}

func TestWaitAny(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		return exchange(ctx, w, func(rooms [][]int32, requests []*mpi.Request) error {
			seen := make([]bool, len(requests))
			for range requests {
				i, s, err := mpi.WaitAny(ctx, requests...)
				if err != nil || i < 0 || seen[i] || s.Tag != i || s.Count != len(rooms[i]) {
					return fmt.Errorf("%d: %+v, %w", i, s, err)
				}
				seen[i] = true
			}
			if i, _, err := mpi.WaitAny(ctx, requests...); i != -1 || err != nil {
				return fmt.Errorf("of none active %d, %w", i, err)
			}
			return nil
		})
	})
}

func TestWaitSome(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		return exchange(ctx, w, func(_ [][]int32, requests []*mpi.Request) error {
			for left := len(requests); left > 0; {
				some, err := mpi.WaitSome(ctx, nil, requests...)
				if err != nil || len(some) == 0 {
					return fmt.Errorf("%v, %w", some, err)
				}
				for _, i := range some {
					if ended, s, err := requests[i].Test(); !ended || err != nil || s.Tag != i {
						return fmt.Errorf("%d: %v, %+v, %w", i, ended, s, err)
					}
				}
				left -= len(some)
			}
			return nil
		})
	})
}

// A nil request is one that was never begun, alone and among others.
func TestNilRequests(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		var none *mpi.Request
		if _, err := none.Wait(ctx); !errors.Is(err, mpi.ErrInactive) {
			return fmt.Errorf("wait for none: %w", err)
		}
		if ended, _, err := none.Test(); !ended || !errors.Is(err, mpi.ErrInactive) {
			return fmt.Errorf("test of none: %v, %w", ended, err)
		}
		if none.Cancel() || none.Active() {
			return errors.New("none is active")
		}
		if err := mpi.WaitAll(ctx, nil, none, none); err != nil {
			return err
		}
		return exchange(ctx, w, func(_ [][]int32, requests []*mpi.Request) error {
			all := append([]*mpi.Request{nil}, requests...)
			i, s, err := mpi.WaitAny(ctx, all...)
			if err != nil || i < 1 || s.Tag != i-1 {
				return fmt.Errorf("%d: %+v, %w", i, s, err)
			}
			all[i] = nil
			if _, err := mpi.TestSome(nil, all...); err != nil {
				return err
			}
			if i, _, err := mpi.TestAny(all...); err != nil {
				return err
			} else if i >= 0 {
				all[i] = nil
			}
			if _, err := mpi.TestAll(nil, all...); err != nil {
				return err
			}
			if _, err := mpi.WaitSome(ctx, nil, all...); err != nil {
				return err
			}
			return mpi.WaitAll(ctx, make([]mpi.Status, len(all)), all...)
		})
	})
}

func TestTests(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		for _, kind := range []string{"one", "any", "all"} {
			err := exchange(ctx, w, func(_ [][]int32, requests []*mpi.Request) error {
				for left := len(requests); left > 0 && ctx.Err() == nil; {
					switch kind {
					case "one":
						if ended, _, err := requests[left-1].Test(); err != nil {
							return err
						} else if ended {
							left--
						}
					case "any":
						if i, _, err := mpi.TestAny(requests...); err != nil {
							return err
						} else if i >= 0 {
							left--
						}
					case "all":
						if ended, err := mpi.TestAll(nil, requests...); err != nil {
							return err
						} else if ended {
							left = 0
						}
					}
				}
				return ctx.Err()
			})
			if err != nil {
				return err
			}
		}
		return nil
	})
}

// A context that ends ends the wait: a receive of a call is cancelled, a request goes on.
func TestContext(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 0 {
			if _, err := mpi.Recv(ctx, &w.Comm, make([]byte, 1), 1, 9); err != nil {
				return err
			}
			return mpi.Send(ctx, &w.Comm, []int32{5}, 1, 1)
		}
		why := errors.New("enough")
		short, cancel := context.WithCancelCause(ctx)
		time.AfterFunc(time.Millisecond, func() { cancel(why) })
		var r mpi.Request
		room := make([]int32, 1)
		if err := mpi.Irecv(&r, &w.Comm, room, 0, 1); err != nil {
			return err
		}
		_, err := mpi.Recv(short, &w.Comm, make([]int32, 1), 0, 1)
		if !errors.Is(err, why) || errors.Is(err, mpi.ErrInUse) {
			return fmt.Errorf("receive: %w", err)
		}
		if _, err := r.Wait(short); !errors.Is(err, why) || !r.Active() {
			return fmt.Errorf("wait: %w", err)
		}
		err = mpi.SendSync(short, &w.Comm, []int32{1}, 0, 8) // Nobody receives it.
		if !errors.Is(err, why) || !errors.Is(err, mpi.ErrInUse) {
			return fmt.Errorf("synchronous send: %w", err)
		}
		if err := mpi.Send(ctx, &w.Comm, []byte{0}, 0, 9); err != nil {
			return err
		}
		_, err = r.Wait(ctx)
		if room[0] != 5 {
			return fmt.Errorf("%d came, %w", room[0], err)
		}
		return err
	})
}

// Many goroutines of a rank send and receive at once, whoever drives, and each gets what is its
// own.
func TestGoroutines(t *testing.T) {
	const threads, rounds = 6, 60
	for _, provider := range fabrics {
		run(t, provider, 2, func(ctx context.Context, w *mpi.World) error {
			errs := make([]error, threads)
			var group sync.WaitGroup
			for tag := range threads {
				group.Go(func() { errs[tag] = pingPong(ctx, w, tag, rounds) })
			}
			group.Wait()
			return errors.Join(errs...)
		})
	}
}

func pingPong(ctx context.Context, w *mpi.World, tag, rounds int) error {
	other := 1 - w.Rank()
	out, in := make([]int64, 3000), make([]int64, 3000)
	for i := range rounds {
		n := 1 + i%2*2999
		out[n-1] = int64(tag*1000 + i)
		if w.Rank() == 0 {
			if err := mpi.Send(ctx, &w.Comm, out[:n], other, tag); err != nil {
				return err
			}
		}
		s, err := mpi.Recv(ctx, &w.Comm, in, other, tag)
		if err != nil || s.Count != n || in[n-1] != out[n-1] {
			return fmt.Errorf("goroutine %d, round %d: %+v, %d, want %d, %w", tag, i, s, in[n-1],
				out[n-1], err)
		}
		if w.Rank() == 1 {
			if err := mpi.Send(ctx, &w.Comm, out[:n], other, tag); err != nil {
				return err
			}
		}
	}
	return nil
}

// A rank that calls nothing answers all the same: what was announced to a receive that it has begun
// arrives meanwhile.
func TestComputing(t *testing.T) {
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		var r mpi.Request
		data := make([]byte, 1<<20)
		if w.Rank() == 0 {
			if err := mpi.SendSync(ctx, &w.Comm, data, 1, 0); err != nil { // The other calls nothing.
				return err
			}
			return w.Job().Fence(ctx)
		}
		if err := mpi.Irecv(&r, &w.Comm, data, 0, 0); err != nil {
			return err
		}
		if err := w.Job().Fence(ctx); err != nil { // not of MPI
			return err
		}
		_, err := r.Wait(ctx)
		return err
	})
}

// What waits for a rank that has gone has an error that says so, and so has what begins later.
func TestGone(t *testing.T) {
	cfg := mpi.Config{}
	cfg.Transport.PeerTimeout, cfg.Transport.KeepAlive = 300*time.Millisecond, 100*time.Millisecond
	runWith(t, cfg, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		out, in := []int32{1}, make([]int32, 1)
		for to := range w.Size() {
			if _, err := mpi.Sendrecv(ctx, &w.Comm, out, to, 0, in, to, 0); err != nil {
				return err
			}
		}
		// What was sent has arrived everywhere: with a rank goes what has not left it yet.
		if err := w.Job().Fence(ctx); err != nil {
			return err
		}
		if w.Rank() == 2 {
			w.Kill()
			return nil
		}
		var barrier mpi.Request // under way when the rank goes
		if err := mpi.Ibarrier(&barrier, &w.Comm); err != nil {
			return err
		}
		for i := range 3 {
			_, err := mpi.Recv(ctx, &w.Comm, in, 2, 1)
			if i > 0 {
				err = mpi.Send(ctx, &w.Comm, out, 2, 1)
			}
			var gone *mpi.RankError
			if !errors.As(err, &gone) || gone.Rank != 2 || ctx.Err() != nil {
				return fmt.Errorf("operation %d with the dead: %w", i, err)
			}
		}
		_, under := barrier.Wait(ctx)
		for i, err := range []error{under, mpi.Barrier(ctx, &w.Comm)} {
			var gone *mpi.RankError
			if !errors.As(err, &gone) || gone.Rank != 2 {
				return fmt.Errorf("barrier %d with the dead: %w", i, err)
			}
		}
		other := 1 - w.Rank()
		_, err := mpi.Sendrecv(ctx, &w.Comm, out, other, 2, in, other, 2)
		return errors.Join(err, w.Finalize(ctx)) // What is killed may not have sent its message yet.
	})
}

// After Finalize nothing works, and says so.
func TestFinalized(t *testing.T) {
	runWith(t, mpi.Config{}, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		// What was sent at last arrives although the sender goes at once.
		var r mpi.Request
		if w.Rank() == 0 {
			if err := mpi.Send(ctx, &w.Comm, []int32{1}, 1, 0); err != nil {
				return err
			}
		} else if err := mpi.Irecv(&r, &w.Comm, make([]int32, 1), 0, 0); err != nil {
			return err
		}
		if err := w.Finalize(ctx); err != nil {
			return err
		}
		if w.Rank() == 1 {
			if _, err := r.Wait(ctx); err != nil {
				return fmt.Errorf("what was sent before: %w", err)
			}
		}
		errs := []error{w.Finalize(ctx), mpi.Send(ctx, &w.Comm, []int32{1}, 0, 0)}
		_, err := mpi.Recv(ctx, &w.Comm, []int32{1}, 0, 0)
		for i, err := range append(errs, err) {
			if !errors.Is(err, mpi.ErrFinalized) {
				return fmt.Errorf("call %d: %w", i, err)
			}
		}
		return nil
	})
}

// A message of few bytes, there and back, allocates nothing, nor do 64 requests: to this rank
// itself and to another one, which is in this process and is counted.
func TestNothingAllocated(t *testing.T) {
	if testenv.Race {
		t.Skip("the race detector allocates")
	}
	for _, ranks := range []int{1, 2} {
		run(t, "udp", ranks, func(ctx context.Context, w *mpi.World) error {
			return nothingAllocated(ctx, w, ranks-1-w.Rank())
		})
	}
}

func nothingAllocated(ctx context.Context, w *mpi.World, other int) error {
	out, in := make([]float64, 8), make([]float64, 8)
	requests := make([]*mpi.Request, 64)
	for i := range requests {
		requests[i] = new(mpi.Request)
	}
	var failed error
	once := func() {
		_, err := mpi.Sendrecv(ctx, &w.Comm, out, other, 1, in, other, 1)
		for i := range requests {
			if i%2 == 0 {
				err = errors.Join(err, mpi.Irecv(requests[i], &w.Comm, in, other, i+1))
			} else {
				err = errors.Join(err, mpi.Isend(requests[i], &w.Comm, out, other, i))
			}
		}
		if err = errors.Join(err, mpi.WaitAll(ctx, nil, requests...)); err != nil {
			failed = err
		}
	}
	const runs = 500
	for range 2000 {
		once()
	}
	if w.Rank() > 0 {
		for range runs + 1 { // as AllocsPerRun
			once()
		}
		return failed
	}
	if n := testing.AllocsPerRun(runs, once); n != 0 || failed != nil {
		return fmt.Errorf("%v allocations, %w", n, failed)
	}
	return nil
}

// A request that is in the list twice ends once.
func TestWaitAllTwice(t *testing.T) {
	run(t, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		if w.Rank() == 1 {
			if err := mpi.Barrier(ctx, &w.Comm); err != nil {
				return err
			}
			return mpi.Send(ctx, &w.Comm, []byte{1}, 0, 1)
		}
		var r, b mpi.Request
		data := make([]byte, 1)
		if err := mpi.Irecv(&r, &w.Comm, data, 1, 1); err != nil {
			return err
		}
		if err := mpi.Ibarrier(&b, &w.Comm); err != nil {
			return err
		}
		brief, cancel := context.WithTimeout(ctx, 20*time.Second)
		defer cancel()
		return mpi.WaitAll(brief, nil, &r, &b, &r)
	})
}

// Of two goroutines that finalize one does.
func TestFinalizeAtOnce(t *testing.T) {
	runWith(t, mpi.Config{}, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
		ends := make(chan error)
		for range 2 {
			go func() { ends <- w.Finalize(ctx) }()
		}
		one, other := <-ends, <-ends
		if errors.Is(other, mpi.ErrFinalized) {
			one, other = other, one
		}
		if !errors.Is(one, mpi.ErrFinalized) || other != nil {
			return fmt.Errorf("one: %w, the other: %w", one, other)
		}
		return nil
	})
}

// The Status of a receive from NoRank says so.
func TestReceiveFromNobody(t *testing.T) {
	run(t, "mem/local", 1, func(ctx context.Context, w *mpi.World) error {
		var r mpi.Request
		if err := mpi.Irecv(&r, &w.Comm, []byte{1}, mpi.NoRank, 3); err != nil {
			return err
		}
		began, err := r.Wait(ctx)
		s, received := mpi.Recv(ctx, &w.Comm, []byte{1}, mpi.NoRank, 3)
		want := mpi.Status{Source: mpi.NoRank, Tag: mpi.AnyTag}
		if err = errors.Join(err, received); err != nil || s != want || began != want {
			return fmt.Errorf("%+v, %+v, want %+v: %w", began, s, want, err)
		}
		return nil
	})
}

// Requests of two Worlds of one process are not waited for, or tested, in one call.
func TestRequestsOfTwoWorlds(t *testing.T) {
	var both [2]mpi.Request
	begun, looked := make(chan struct{}), make(chan struct{})
	run(t, "udp", 2, func(ctx context.Context, w *mpi.World) error {
		mine := &both[w.Rank()]
		err := mpi.Irecv(mine, &w.Comm, make([]byte, 1), 1-w.Rank(), 1)
		if err != nil {
			return err
		}
		if w.Rank() == 1 {
			close(begun)
			<-looked
		} else {
			<-begun
			short, cancel := context.WithTimeout(ctx, time.Second)
			defer cancel()
			all := []*mpi.Request{&both[0], &both[1]}
			errs := make([]error, 6)
			errs[0] = mpi.WaitAll(short, nil, all...)
			_, _, errs[1] = mpi.WaitAny(short, all...)
			_, errs[2] = mpi.WaitSome(short, nil, all...)
			_, errs[3] = mpi.TestAll(nil, all...)
			_, _, errs[4] = mpi.TestAny(all...)
			_, errs[5] = mpi.TestSome(nil, all...)
			close(looked)
			for i, e := range errs {
				if !errors.Is(e, mpi.ErrWorlds) {
					err = errors.Join(err, fmt.Errorf("call %d: %w", i, e))
				}
			}
		}
		err = errors.Join(err, mpi.Send(ctx, &w.Comm, make([]byte, 1), 1-w.Rank(), 1))
		_, waited := mine.Wait(ctx)
		return errors.Join(err, waited)
	})
}
