package host

import (
	"context"
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"gobtl/mpi"
)

// group is a job whose ranks are in this process.
type group struct {
	size   int
	mu     sync.Mutex
	met    int
	all    chan struct{}
	values [][]byte
}

// seat is a rank's place in it.
type seat struct {
	*group
	rank int
}

func (s seat) Rank() int                      { return s.rank }
func (s seat) Size() int                      { return s.size }
func (s seat) NodeOf(int) int                 { return 0 }
func (s seat) Nodes() int                     { return 1 }
func (s seat) Finalize(context.Context) error { return nil }

func (s seat) Exchange(ctx context.Context, _ string, value []byte) ([][]byte, error) {
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

func (s seat) Fence(ctx context.Context) error {
	_, err := s.Exchange(ctx, "", nil)
	return err
}

// TestNoFilesForRank takes all files from a process after its ranks have agreed to share memory. A
// rank that then sends to the other one is told which limit is in the way, long before the
// HandshakeTimeout.
func TestNoFilesForRank(t *testing.T) {
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	var cfg mpi.Config
	cfg.Fabric.Provider = "shm"
	cfg.Transport.HandshakeTimeout = 5 * patience
	cfg.CloseTimeout = time.Millisecond
	job := &group{size: 2}
	worlds, errs := make([]*mpi.World, 2), make([]error, 2)
	var all sync.WaitGroup
	for rank := range worlds {
		all.Go(func() { worlds[rank], errs[rank] = mpi.Open(ctx, seat{job, rank}, cfg) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	err := withoutFiles(func() error {
		return mpi.SendSync(ctx, &worlds[0].Comm, []int{1}, 1, 0)
	})
	var gone *mpi.RankError
	if !errors.As(err, &gone) || gone.Rank != 1 ||
		!strings.Contains(err.Error(), "limit of open files (ulimit -n)") {
		t.Errorf("not that the limit of open files is in the way: %v", err)
	}
	cancel() // The ranks do not reach each other any more.
	for _, w := range worlds {
		all.Go(func() { _ = w.Finalize(ctx) })
	}
	all.Wait()
}

// withoutFiles runs fn while this process can open no file.
func withoutFiles(fn func() error) error {
	var limit syscall.Rlimit
	if err := syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit); err != nil {
		return err
	}
	none := limit
	none.Cur = 0
	if err := syscall.Setrlimit(syscall.RLIMIT_NOFILE, &none); err != nil {
		return err
	}
	err := fn()
	return errors.Join(err, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
}
