package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"gobtl/mpi"
)

// A rank that gives a new communicator the context of another one cannot mix the messages of two
// other ranks: they refuse the communicator. So does Shrink.
func TestRepeatedContexts(t *testing.T) {
	for name, second := range map[string]func(context.Context, *mpi.World) (*mpi.Comm, error){
		"Dup":    func(ctx context.Context, w *mpi.World) (*mpi.Comm, error) { return w.Dup(ctx) },
		"Shrink": func(ctx context.Context, w *mpi.World) (*mpi.Comm, error) { return w.Shrink(ctx) },
		"CreateGroup": func(ctx context.Context, w *mpi.World) (*mpi.Comm, error) {
			return w.CreateGroup(ctx, w.Group(), 3)
		},
	} {
		t.Run(name, func(t *testing.T) {
			run(t, "udp", 3, func(ctx context.Context, w *mpi.World) error {
				if _, err := w.Dup(ctx); err != nil {
					return err
				}
				if w.Rank() == 0 {
					w.Repeat()
				}
				_, err := second(ctx, w)
				if !errors.Is(err, mpi.ErrWrongContext) {
					return fmt.Errorf("rank %d: %w", w.Rank(), err)
				}
				return nil
			})
		})
	}
}
