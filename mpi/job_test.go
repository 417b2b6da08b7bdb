package mpi_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"gobtl/btl/runner"
	_ "gobtl/fabric/mem"
	_ "gobtl/fabric/udp"
	"gobtl/internal/testenv"
	"gobtl/mpi"
)

// room is a job whose ranks are goroutines of the test.
type room struct {
	mu     sync.Mutex
	size   int
	perNod int
	met    int
	all    chan struct{}
	values [][]byte
}

// seat is a rank's place in it.
type seat struct {
	*room
	rank int
}

func (s seat) Rank() int           { return s.rank }
func (s seat) Size() int           { return s.size }
func (s seat) NodeOf(rank int) int { return rank / s.perNod }
func (s seat) Nodes() int          { return (s.size + s.perNod - 1) / s.perNod }

// meet waits until all ranks have called it.
func (s seat) meet(ctx context.Context, value []byte) ([][]byte, error) {
	s.mu.Lock()
	if s.met == 0 {
		s.all, s.values = make(chan struct{}), make([][]byte, s.size)
	}
	all, values := s.all, s.values
	values[s.rank] = value
	if s.met++; s.met == s.size {
		s.met = 0
		close(all)
	}
	s.mu.Unlock()
	select {
	case <-all:
		return values, nil
	case <-ctx.Done():
		return nil, ctx.Err()
	}
}

func (s seat) Exchange(ctx context.Context, _ string, value []byte) ([][]byte, error) {
	return s.meet(ctx, value)
}

func (s seat) Fence(ctx context.Context) error {
	_, err := s.meet(ctx, nil)
	return err
}

func (s seat) Finalize(context.Context) error { return nil }

// fabrics are what jobs of the tests run over.
var fabrics = []string{"udp", "mem/local"}

// limit is there for hangs; nothing takes nearly as long.
const limit = time.Minute

// run runs a job of so many ranks, each of which does what body says.
func run(t *testing.T, provider string, size int, body func(context.Context, *mpi.World) error) {
	t.Helper()
	runWith(t, mpi.Config{}, provider, size, func(ctx context.Context, w *mpi.World) error {
		if err := body(ctx, w); err != nil {
			return err
		}
		return w.Finalize(ctx)
	})
}

// runWith is run with a configuration, where body ends the world.
func runWith(t *testing.T, cfg mpi.Config, provider string, size int,
	body func(context.Context, *mpi.World) error,
) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), limit)
	defer cancel()
	cfg.Fabric.Provider = provider
	if provider == "udp" {
		cfg.Fabric.Node = "127.0.0.1"
	}
	cfg.Transport.SendBuffers = 256
	cfg.Transport.RecvDepth = 128
	if testenv.Race {
		cfg.Wait = runner.WaitEvent // many goroutines that poll are slow there
	}
	all := &room{size: size, perNod: 2}
	errs := make([]error, size)
	var group sync.WaitGroup
	for rank := range size {
		group.Go(func() {
			w, err := mpi.Open(ctx, seat{all, rank}, cfg)
			if err == nil {
				err = body(ctx, w)
			}
			if err != nil {
				errs[rank] = fmt.Errorf("rank %d: %w", rank, err)
				cancel()
			}
		})
	}
	group.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
}
