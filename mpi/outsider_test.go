package mpi_test

import (
	"context"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// outsiderJob is a job of three ranks. Ranks 0 and 1 have a communicator. Rank 2 does not belong to
// the communicator, and sends messages with its context to rank 0.
type outsiderJob struct {
	w   *mpi.World
	c   *mpi.Comm
	lie int // bytes of a message of rank 2
}

const outsider = 2

// The method "lies" returns at rank 0 when a message of rank 2 with the given tag has arrived.
func (o *outsiderJob) lies(ctx context.Context, tag int) error {
	if err := mpi.Send(ctx, &o.w.Comm, []int64{int64(tag)}, outsider, 0); err != nil {
		return err
	}
	_, err := mpi.Recv(ctx, &o.w.Comm, make([]int64, 1), outsider, 0) // it overtakes nothing
	return err
}

// The method "speaks" makes rank 1 send a message with the given tag in the communicator.
func (o *outsiderJob) speaks(ctx context.Context, tag int) error {
	return mpi.Send(ctx, &o.w.Comm, []int64{int64(tag)}, 1, 0)
}

// The method "follow" runs at the ranks 1 and 2.
func (o *outsiderJob) follow(ctx context.Context) error {
	for {
		var tag [1]int64
		_, err := mpi.Recv(ctx, &o.w.Comm, tag[:], 0, 0)
		if err != nil || tag[0] < 0 {
			return err
		}
		if o.w.Rank() == outsider {
			if err = o.w.SendInto(0, 0, 1, int(tag[0]), make([]byte, o.lie)); err == nil {
				err = mpi.Send(ctx, &o.w.Comm, tag[:], 0, 0)
			}
		} else {
			err = mpi.Send(ctx, o.c, []int64{42}, 0, int(tag[0]))
		}
		if err != nil {
			return err
		}
	}
}

// A receive or a probe from any rank of a communicator does not match messages of a rank outside
// the communicator, whether the message arrives before or after the receive begins.
func TestOutsiderOfCommunicator(t *testing.T) {
	for name, lie := range map[string]int{"eager": 8, "announced": 100_000} {
		t.Run(name, func(t *testing.T) {
			run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
				colour := 0
				if w.Rank() == outsider {
					colour = mpi.NoColour
				}
				c, err := w.Split(ctx, colour, w.Rank())
				if err != nil {
					return err
				}
				o := &outsiderJob{w: w, c: c, lie: lie}
				if w.Rank() > 0 {
					return o.follow(ctx)
				}
				for i, step := range []func(context.Context, int) error{
					o.recvAfter, o.recvBefore, o.persistent, o.probe, o.iprobe, o.mprobe, o.improbe,
				} {
					if err := step(ctx, 5+i); err != nil {
						return fmt.Errorf("step %d: %w", i, err)
					}
				}
				for _, rank := range []int{1, outsider} {
					if err := mpi.Send(ctx, &w.Comm, []int64{-1}, rank, 0); err != nil {
						return err
					}
				}
				return nil
			})
		})
	}
}

// The method "real" returns an error if a received message is not the one of rank 1.
func (o *outsiderJob) real(s mpi.Status, got int64, err error) error {
	if err == nil && (s.Source != 1 || got != 42) {
		err = fmt.Errorf("%+v, value %d", s, got)
	}
	return err
}

func (o *outsiderJob) recvAfter(ctx context.Context, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if err := o.speaks(ctx, tag); err != nil {
		return err
	}
	var got [1]int64
	s, err := mpi.Recv(ctx, o.c, got[:], mpi.AnySource, tag)
	return o.real(s, got[0], err)
}

func (o *outsiderJob) recvBefore(ctx context.Context, tag int) error {
	var r mpi.Request
	var got [1]int64
	if err := mpi.Irecv(&r, o.c, got[:], mpi.AnySource, tag); err != nil {
		return err
	}
	return o.during(ctx, &r, &got[0], tag)
}

// The method "during" makes both ranks send while a receive waits.
func (o *outsiderJob) during(ctx context.Context, r *mpi.Request, got *int64, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if ended, s, err := r.Test(); ended {
		return fmt.Errorf("the message of an outsider has ended a receive: %+v, %w", s, err)
	}
	if err := o.speaks(ctx, tag); err != nil {
		return err
	}
	s, err := r.Wait(ctx)
	return o.real(s, *got, err)
}

func (o *outsiderJob) persistent(ctx context.Context, tag int) error {
	var r mpi.Request
	var got [1]int64
	if err := mpi.RecvInit(&r, o.c, got[:], mpi.AnySource, tag); err != nil {
		return err
	}
	for range 2 {
		if err := r.Start(); err != nil {
			return err
		}
		if err := o.during(ctx, &r, &got[0], tag); err != nil {
			return err
		}
		got[0] = 0
	}
	return nil
}

func (o *outsiderJob) probe(ctx context.Context, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if err := o.speaks(ctx, tag); err != nil {
		return err
	}
	if s, err := mpi.Probe(ctx, o.c, mpi.AnySource, tag); err != nil || s.Source != 1 {
		return fmt.Errorf("%+v, %w", s, err)
	}
	var got [1]int64
	s, err := mpi.Recv(ctx, o.c, got[:], mpi.AnySource, tag)
	return o.real(s, got[0], err)
}

func (o *outsiderJob) iprobe(ctx context.Context, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if found, s, err := mpi.Iprobe(o.c, mpi.AnySource, tag); found || err != nil {
		return fmt.Errorf("%v, %+v, %w", found, s, err)
	}
	return nil
}

func (o *outsiderJob) mprobe(ctx context.Context, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if err := o.speaks(ctx, tag); err != nil {
		return err
	}
	m, _, err := mpi.Mprobe(ctx, o.c, mpi.AnySource, tag)
	if err != nil {
		return err
	}
	var got [1]int64
	s, err := mpi.Mrecv(ctx, m, got[:])
	return o.real(s, got[0], err)
}

func (o *outsiderJob) improbe(ctx context.Context, tag int) error {
	if err := o.lies(ctx, tag); err != nil {
		return err
	}
	if m, s, err := mpi.Improbe(o.c, mpi.AnySource, tag); m != nil || err != nil {
		return fmt.Errorf("%v, %+v, %w", m, s, err)
	}
	return nil
}

// Requests that a rank outside a window's communicator sends to the window are dropped, and do not
// keep the requests of other ranks waiting.
func TestOutsiderOfWindow(t *testing.T) {
	run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
		colour := 0
		if w.Rank() == outsider {
			colour = mpi.NoColour
		}
		c, err := w.Split(ctx, colour, w.Rank())
		if err != nil {
			return err
		}
		var win *mpi.Window[int64]
		if c != nil {
			if win, err = mpi.NewWindow(ctx, c, make([]int64, 4)); err != nil {
				return err
			}
		}
		if err := mpi.Barrier(ctx, &w.Comm); err != nil {
			return err
		}
		if w.Rank() == outsider {
			for range 100 {
				// The context after that of the communicator is the one of its window.
				if err := w.SendInto(0, 0, 2, 0, make([]byte, 24)); err != nil {
					return err
				}
			}
		}
		if err := mpi.Barrier(ctx, &w.Comm); err != nil || win == nil {
			return err
		}
		if w.Rank() == 1 {
			if _, err := win.FetchAndOp(ctx, 1, 0, 0, mpi.Sum[int64]()); err != nil {
				return err
			}
		}
		if err := win.Fence(ctx); err != nil {
			return err
		}
		if s := w.LayerStats(); w.Rank() == 0 && (s.Refused != 100 || win.Mem()[0] != 1) {
			return fmt.Errorf("%d messages dropped, value %d", s.Refused, win.Mem()[0])
		}
		return win.Free(ctx)
	})
}
