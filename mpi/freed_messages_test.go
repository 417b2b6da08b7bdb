package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// The messages that nobody receives in a communicator no longer count when the communicator was
// freed, whether they arrive before that or later. Rank 1 sends as many of them as rank 0 stores. A
// receive that was begun before Free still gets its message.
func TestFreedMessages(t *testing.T) {
	const most, wanted, ready, last = 4, 50, 51, 52
	for name, late := range map[string]bool{"before": false, "after": true} {
		send := func(ctx context.Context, w *mpi.World, c *mpi.Comm) error {
			defer c.Free()
			if late {
				if _, err := mpi.Recv(ctx, &w.Comm, []int32{0}, 0, ready); err != nil {
					return err
				}
			}
			for i := range most {
				if err := mpi.Send(ctx, c, []int32{7}, 0, i); err != nil {
					return err
				}
			}
			return errors.Join(mpi.Send(ctx, c, []int32{98}, 0, wanted),
				mpi.Send(ctx, &w.Comm, []int32{99}, 0, last))
		}
		receive := func(ctx context.Context, w *mpi.World, c *mpi.Comm) error {
			var r mpi.Request
			one, two := []int32{0}, []int32{0}
			err := mpi.Irecv(&r, c, one, 1, wanted)
			if err == nil && !late {
				_, err = mpi.Probe(ctx, c, 1, most-1) // All of them have arrived.
			}
			if c.Free(); err != nil {
				return err
			}
			if late {
				if err := mpi.Send(ctx, &w.Comm, []int32{1}, 1, ready); err != nil {
					return err
				}
			}
			_, err1 := r.Wait(ctx)
			_, err2 := mpi.Recv(ctx, &w.Comm, two, 1, last)
			if one[0] != 98 || two[0] != 99 {
				return errors.Join(fmt.Errorf("received %v and %v", one, two), err1, err2)
			}
			return errors.Join(err1, err2)
		}
		t.Run(name, func(t *testing.T) {
			var cfg mpi.Config
			cfg.Layer.EnvelopesMax = most
			runWith(t, cfg, "mem/local", 2, func(ctx context.Context, w *mpi.World) error {
				c, err := w.Dup(ctx)
				if err != nil {
					return err
				}
				body := receive
				if w.Rank() == 1 {
					body = send
				}
				if err := body(ctx, w, c); err != nil {
					return err
				}
				return w.Finalize(ctx)
			})
		})
	}
}
