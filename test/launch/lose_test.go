package launch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strings"
	"syscall"
	"testing"
	"time"

	"gobtl/launch"
	"gobtl/mpi"
)

// lose is a rank of a job that loses rank 1 in the middle of an Allreduce, and goes on without it.
func lose(ctx context.Context, j *launch.Job) error {
	signal.Ignore(syscall.SIGTERM) // with which the launcher asks the others to end
	var cfg mpi.Config
	cfg.Transport.PeerTimeout = 2 * time.Second
	cfg.Transport.KeepAlive = 200 * time.Millisecond
	w, err := mpi.Open(ctx, j, cfg)
	if err != nil {
		return err
	}
	sums := make([]float64, 1<<20)
	if err := mpi.Allreduce(ctx, &w.Comm, sums, sums, mpi.Sum[float64]()); err != nil {
		return err
	}
	var r mpi.Request
	if err := mpi.Iallreduce(&r, &w.Comm, sums, sums, mpi.Sum[float64]()); err != nil {
		return err
	}
	if w.Rank() == 1 {
		return syscall.Kill(os.Getpid(), syscall.SIGKILL)
	}
	_, err = r.Wait(ctx)
	var gone *mpi.RankError
	if !errors.As(err, &gone) || gone.Rank != 1 {
		return fmt.Errorf("not that rank 1 is gone: %w", err)
	}
	rest, err := w.Shrink(ctx)
	if err != nil {
		return err
	}
	one := []int64{1}
	if err := mpi.Allreduce(ctx, rest, one, one, mpi.Sum[int64]()); err != nil {
		return err
	}
	fmt.Printf("%d are left\n", one[0])
	return w.Finalize(ctx)
}

// A rank that is killed in the middle of an Allreduce: the others have the error, shrink, go on,
// and end in order.
func TestLoseRank(t *testing.T) {
	t.Parallel()
	r := run(t, roleOf(t, "lose", "-n", "4", "--grace", "50s"))
	if n := strings.Count(r.stdout, "3 are left\n"); n != 3 || r.status != 128+9 ||
		strings.Contains(r.stderr, "rank: ") {
		t.Errorf("status %d, %d ranks went on\n%s%s", r.status, n, r.stdout, r.stderr)
	}
}
